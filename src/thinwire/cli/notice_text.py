"""Notices of a subscription as text.

>>> describe_notice(EventsMissed("p1", ("T1",), 3, 7, "gap"))
'events 3 to 7 of T1 from publisher p1 are missing: messages of the log were lost or are no longer retained'
>>> describe_notice(BoundExceeded("p1", "temperature", 1.0, 0.5))
'temperature from publisher p1 has bound 1 instead of tolerance 0.5 until the publisher applies the new configuration'
"""

from __future__ import annotations

from thinwire.cli.output import print_status
from thinwire.client.notices import (
    BoundExceeded,
    BrokerUnreachable,
    ClockSkew,
    MessageUnreadable,
    Notice,
    NoTranslator,
    PublisherLost,
)
from thinwire.codec import EventsMissed

_REASONS = {
    "gap": "messages of the log were lost or are no longer retained",
    "restart": "the publisher restarted before it had sent them",
    "corrupt": "a message was damaged; decoding resumes at the next key frame",
    "diverged": "the decoder state differed from the publisher's; decoding resumes at the next key frame",
    "unknown schema": "their schema is unknown; register it, or pass it with --schema",
    "refused": "a message did not match the stream and was refused",
    "retention": "they are no longer retained by the log",
}


def print_notice(notice: Notice) -> None:
    text = describe_notice(notice)
    if text:
        print_status(text)


def describe_notice(notice: Notice) -> str:
    """Return one line for a notice; an empty string for notices that only programs use, such as watermarks."""
    if isinstance(notice, EventsMissed):
        return _describe_missed(notice)
    if isinstance(notice, BoundExceeded):
        bound = "no bound" if notice.bound is None else f"bound {notice.bound:g}"
        return (
            f"{notice.property} from publisher {notice.publisher} has {bound} instead of tolerance "
            f"{notice.tolerance:g} until the publisher applies the new configuration"
        )
    if isinstance(notice, ClockSkew):
        difference = f"{notice.seconds:+.1f} s from the broker's"
        return f"the clock of publisher {notice.publisher} differs by {difference}: synchronise it (NTP)"
    if isinstance(notice, MessageUnreadable):
        return f"message {notice.offset} of publisher {notice.publisher} cannot be decoded: {notice.reason}"
    if isinstance(notice, BrokerUnreachable):
        return f"the broker has been unreachable for {notice.seconds:.0f} s; reading resumes after reconnecting"
    if isinstance(notice, NoTranslator):
        return notice.reason
    if isinstance(notice, PublisherLost):
        name = f"publisher {notice.publisher} of {notice.topic}"
        return f"no message from {name} for {notice.seconds:.0f} s; its last values remain in use until it returns"
    return ""


def _describe_missed(notice: EventsMissed) -> str:
    reason = _REASONS.get(notice.reason, notice.reason)
    if not notice.publisher:
        return f"events of this subscription are missing: {reason}"
    source = "every source" if notice.source is None else ", ".join(map(str, notice.source)) or "its only source"
    unknown = notice.first is None or notice.last is None
    events = "some events" if unknown else f"events {notice.first} to {notice.last}"
    return f"{events} of {source} from publisher {notice.publisher} are missing: {reason}"
