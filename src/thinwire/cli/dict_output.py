"""What the verbs about dictionaries print."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from thinwire.cli.dict_store import Checked, Described, Listed
from thinwire.cli.output import Output, shown
from thinwire.dictionaries import Dictionary
from thinwire.topics.dictionary_documents import Decision

LISTED = ("topic", "dictionary", "state", "codec", "bytes", "trained on", "saved", "until", "parent")
DECIDED = ("when", "decision", "dictionary", "until", "bytes to each", "because")
CHECKED = ("dictionary", "needed by", "verdict")
SHORT = 12
"""digits of a hash in a table"""
PIECES, PIECE = 8, 100
"""pieces of the content that are printed, and signs of each"""


def show_listed(output: Output, rows: Sequence[Listed]) -> None:
    """The table of dictionaries."""
    output.table("dictionaries", LISTED, map(_listed_cells, rows))
    if not rows:
        output.note("no topic has one: `thinwire dict train --from ... --to URL --topic TOPIC` makes and tells one.")
    output.document({"dictionaries": [_listed_document(row) for row in rows]})


def show_one(output: Output, found: Described) -> None:
    """Everything about one."""
    dictionary = found.dictionary
    document = {
        **facts_of(dictionary),
        "packed": found.packed,
        "changed": found.changed,
        "lineage": list(found.lineage),
        "topics": list(found.topics),
    }
    output.table(f"dictionary {dictionary.hash.hex()}", ("what", "value"), _about(found))
    pieces = readable(dictionary.content)
    output.table("the end of it, where the most valuable stands", ("content",), ([piece] for piece in pieces))
    output.document({**document, "content": pieces})


def show_decisions(output: Output, topic: str, decisions: Sequence[Decision]) -> None:
    """The last decisions, the newest first."""
    newest_first = list(reversed(decisions))
    output.table(f"{topic}: the last decisions", DECIDED, map(_decided_cells, newest_first))
    if not decisions:
        output.note("nothing was decided: are dictionaries switched on for the topic, and does the service run?")
        output.note("a publisher that trains for itself, where no service runs, writes no decisions down")
    output.document({"topic": topic, "decisions": newest_first})


def show_checked(output: Output, which: str, checked: Sequence[Checked]) -> None:
    """What was checked, and what came out."""
    output.table(which, CHECKED, ((one.hash, one.needed, one.verdict) for one in checked))
    bad = sum(not one.good for one in checked)
    output.note(f"{bad} of {len(checked)} are not as they should be" if bad else f"all {len(checked)} are good")
    output.document({"which": which, "good": not bad, "dictionaries": checked})


def facts_of(dictionary: Dictionary) -> dict[str, Any]:
    """A dictionary as a document, but for its content."""
    facts = dictionary.facts
    return {
        "hash": dictionary.hash.hex(),
        "codec": dictionary.codec,
        "level": dictionary.level,
        "largest": dictionary.largest,
        "bytes": len(dictionary.content),
        "trained_messages": facts.messages if facts else None,
        "trained_bytes": facts.bytes if facts else None,
        "saved": facts.ratio if facts else None,
    }


def readable(content: bytes, pieces: int = PIECES, width: int = PIECE) -> list[str]:
    """The last bytes of a dictionary as text, the most valuable piece first; what cannot be printed is a dot.

    >>> readable(b"\\x00" * 90 + b'{"room": "11.1", ', pieces=2, width=10)
    [': "11.1", ', '···{"room"']
    """
    text = content[-pieces * width :].decode("utf-8", "replace")
    signs = "".join(sign if sign.isprintable() and sign != "\ufffd" else "·" for sign in text)
    cut = [signs[max(0, end - width) : end] for end in range(len(signs), 0, -width)]
    return [piece for piece in cut if piece.strip("· ")]


def instant(seconds: float) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def percent(ratio: float | None) -> str | None:
    """A share that is in per cent already."""
    return None if ratio is None else f"{ratio:.1f} %"


def _about(found: Described) -> list[tuple[str, Any]]:
    told = facts_of(found.dictionary)
    trained = f"{shown(told['trained_messages'])} messages, {shown(told['trained_bytes'])} bytes"
    return [
        ("codec", f"{told['codec']}, level {told['level']}"),
        ("for messages up to", told["largest"]),
        ("bytes", told["bytes"]),
        ("bytes to one receiver, packed", found.packed),
        ("the same as a change of its parent", found.changed),
        ("trained on", trained if told["trained_messages"] is not None else None),
        ("saved on later messages", percent(told["saved"])),
        ("came from", ", ".join(hash[:SHORT] for hash in found.lineage) or None),
        ("kept for", ", ".join(found.topics) or None),
    ]


def _listed_cells(row: Listed) -> list[Any]:
    until, parent = instant(row.said.expires), row.said.parent[:SHORT] or None
    if row.dictionary is None:
        return [row.topic, row.said.hash[:SHORT], "missing", None, None, None, None, until, parent]
    told = facts_of(row.dictionary)
    codec = f"{told['codec']} {told['level']}"
    numbers = [told["bytes"], told["trained_messages"], percent(told["saved"])]
    return [row.topic, row.said.hash[:SHORT], row.state, codec, *numbers, until, parent]


def _listed_document(row: Listed) -> dict[str, Any]:
    facts = facts_of(row.dictionary) if row.dictionary is not None else {}
    about = {"hash": row.said.hash, "expires": row.said.expires, "parent": row.said.parent}
    return {"topic": row.topic, **facts, **about, "state": row.state, "there": row.dictionary is not None}


def _decided_cells(one: Decision) -> list[Any]:
    because = ", ".join(f"{name} {shown(value)}" for name, value in (one.why or {}).items())
    until = instant(one.expires) if one.expires else None
    return [instant(one.time), one.kind, one.hash[:SHORT] or None, until, one.travels or None, because]
