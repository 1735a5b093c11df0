"""What a subscriber is told beside events, in words for people.

>>> in_words(Missed("p1", ("T1",), 3, 7, "gap"))
'events 3 to 7 of T1 from publisher p1 are missing: messages of the log were lost or are no longer kept'
>>> in_words(Coarser("p1", "temperature", 1.0, 0.5))
'temperature from publisher p1 may be off by 1 where 0.5 was asked, until the publisher follows'
"""

from __future__ import annotations

from thinwire.client.notices import Away, Coarser, Gone, Notice, Skewed, Unreadable, Unserved
from thinwire.codec import Missed

_REASONS = {
    "gap": "messages of the log were lost or are no longer kept",
    "restart": "the publisher started again and had not told them",
    "corrupt": "a message was damaged; it goes on from the next key frame",
    "diverged": "the state did not match the publisher's; it goes on from the next key frame",
    "unknown schema": "their schema is not known here; register it, or give it with --schema",
    "refused": "a message did not fit the link and was refused",
    "retention": "the log no longer reaches back that far",
}


def in_words(notice: Notice) -> str:
    """One line; nothing for what only programs want to know."""
    if isinstance(notice, Missed):
        return _missed(notice)
    if isinstance(notice, Coarser):
        off = "by an amount nobody promises" if notice.bound is None else f"by {notice.bound:g}"
        place = f"{notice.property} from publisher {notice.publisher}"
        return f"{place} may be off {off} where {notice.tolerance:g} was asked, until the publisher follows"
    if isinstance(notice, Skewed):
        return f"the clock of publisher {notice.publisher} is {notice.seconds:+.1f} s off the broker's: set it (NTP)"
    if isinstance(notice, Unreadable):
        return f"message {notice.offset} of publisher {notice.publisher} cannot be read: {notice.reason}"
    if isinstance(notice, Away):
        return f"the broker has not been reached for {notice.seconds:.0f} s; reading goes on when it is back"
    if isinstance(notice, Unserved):
        return notice.reason
    if isinstance(notice, Gone):
        who = f"publisher {notice.publisher} of {notice.topic}"
        return f"{who} has not been heard for {notice.seconds:.0f} s; its values stay, and it is not waited for"
    return ""


def _missed(notice: Missed) -> str:
    if not notice.publisher:
        return f"events that were due to this subscription are missing: {_REASONS.get(notice.reason, notice.reason)}"
    source = "every source" if notice.source is None else ", ".join(map(str, notice.source)) or "its only source"
    reason = _REASONS.get(notice.reason, notice.reason)
    return f"{_ordinals(notice)} of {source} from publisher {notice.publisher} are missing: {reason}"


def _ordinals(notice: Missed) -> str:
    if notice.first is None or notice.last is None:
        return "some events"
    return f"events {notice.first} to {notice.last}"
