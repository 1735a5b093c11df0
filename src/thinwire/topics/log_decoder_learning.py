"""What a message names and its reader does not know yet: it is asked for, and the message is read on.

Two things are named: a schema by its fingerprint (8 bytes), a dictionary by its hash (16 bytes). A message that waits
for a schema is read again as a whole; one that waits for a dictionary goes on at the frame that needs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from thinwire.codec import Delivery, Subscriber
from thinwire.errors import PeerFault, UnknownDictionary, UnknownSchema

Learn = Callable[[bytes], Awaitable[bool]]
"""asks for what has this name; False where nobody knows it, a PeerFault where what comes is something else"""


async def read_on(
    link: Subscriber,
    fault: PeerFault,
    again: Callable[[], list[Delivery]],
    learn: Learn,
    tell: Callable[[PeerFault], None],
) -> list[Delivery]:
    """What a message brings that its link could not read at first.

    again: receives it once more; tell: called with what stays unreadable. A frame whose dictionary is not to be had is
    lost, and what comes after it in the message is read as far as it can be
    """
    asked: set[bytes] = set()
    while True:
        name = name_of(fault)
        if name is None:
            tell(fault)
            return []
        if name in asked or not await _learnt(name, fault, learn, tell):
            if isinstance(fault, UnknownSchema):
                return []
            link.give_up()
        asked.add(name)
        try:
            return again()
        except PeerFault as next_fault:
            fault = next_fault


def name_of(fault: PeerFault) -> bytes | None:
    """The name of what is not known; None where the fault is another one."""
    if isinstance(fault, UnknownSchema):
        return bytes.fromhex(fault.fingerprint)
    if isinstance(fault, UnknownDictionary) and "hash" in fault.facts:
        return bytes.fromhex(fault.hash)
    return None


async def _learnt(name: bytes, fault: PeerFault, learn: Learn, tell: Callable[[PeerFault], None]) -> bool:
    try:
        known = await learn(name)
    except PeerFault as lie:
        tell(lie)
        return False
    if not known:
        tell(fault)
    return known
