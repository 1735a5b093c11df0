"""Output of `thinwire dict`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from thinwire.cli.dict_store import DictionaryDescription, ListedDictionary, VerifiedDictionary
from thinwire.cli.output import Output, format_cell
from thinwire.dictionaries import Dictionary
from thinwire.topics.dictionary_documents import Decision

LIST_COLUMNS = ("topic", "dictionary", "state", "codec", "bytes", "trained on", "saved", "until", "parent")
DECISION_COLUMNS = ("when", "decision", "dictionary", "until", "bytes to each", "because")
VERIFY_COLUMNS = ("dictionary", "needed by", "verdict")
SHORT = 12
"""digits of a hash in a table"""
PIECES, PIECE = 8, 100
"""number of printed lines of content, and characters per line"""


def show_list(output: Output, rows: Sequence[ListedDictionary]) -> None:
    """Print the list of dictionaries."""
    output.table("dictionaries", LIST_COLUMNS, map(_list_cells, rows))
    if not rows:
        output.note(
            "no topic has a dictionary: train one with `thinwire dict train --from ... --to URL --topic TOPIC`."
        )
    output.document({"dictionaries": [_list_document(row) for row in rows]})


def show_dictionary(output: Output, found: DictionaryDescription) -> None:
    """Print one dictionary."""
    dictionary = found.dictionary
    document = {
        **facts_of(dictionary),
        "packed": found.packed,
        "changed": found.changed,
        "lineage": list(found.lineage),
        "topics": list(found.topics),
    }
    output.table(f"dictionary {dictionary.hash.hex()}", ("what", "value"), _description_rows(found))
    pieces = readable(dictionary.content)
    output.table("end of the content, most valuable first", ("content",), ([piece] for piece in pieces))
    output.document({**document, "content": pieces})


def show_decisions(output: Output, topic: str, decisions: Sequence[Decision]) -> None:
    """Print the latest decisions, newest first."""
    newest_first = list(reversed(decisions))
    output.table(f"{topic}: latest decisions", DECISION_COLUMNS, map(_decision_cells, newest_first))
    if not decisions:
        output.note(
            "no decisions: check that dictionaries are enabled for the topic and that the dictionary trainer runs"
        )
    output.document({"topic": topic, "decisions": newest_first})


def show_verification(output: Output, which: str, checked: Sequence[VerifiedDictionary]) -> None:
    """Print the results of a verification."""
    output.table(which, VERIFY_COLUMNS, ((one.hash, one.needed, one.verdict) for one in checked))
    bad = sum(not one.good for one in checked)
    output.note(f"{bad} of {len(checked)} are damaged or missing" if bad else f"all {len(checked)} are good")
    output.document({"which": which, "good": not bad, "dictionaries": checked})


def facts_of(dictionary: Dictionary) -> dict[str, Any]:
    """Return a dictionary as a document without its content."""
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
    """Return the last bytes of a dictionary as text, last piece first; unprintable characters become dots.

    >>> readable(b"\\x00" * 90 + b'{"room": "11.1", ', pieces=2, width=10)
    [': "11.1", ', '···{"room"']
    """
    text = content[-pieces * width :].decode("utf-8", "replace")
    printable = "".join(char if char.isprintable() and char != "\ufffd" else "·" for char in text)
    lines = [printable[max(0, end - width) : end] for end in range(len(printable), 0, -width)]
    return [line for line in lines if line.strip("· ")]


def format_time(seconds: float) -> str:
    """Format a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def format_percent(ratio: float | None) -> str | None:
    """Format a ratio given in percent."""
    return None if ratio is None else f"{ratio:.1f} %"


def _description_rows(found: DictionaryDescription) -> list[tuple[str, Any]]:
    facts = facts_of(found.dictionary)
    trained = f"{format_cell(facts['trained_messages'])} messages, {format_cell(facts['trained_bytes'])} bytes"
    return [
        ("codec", f"{facts['codec']}, level {facts['level']}"),
        ("for messages up to", facts["largest"]),
        ("bytes", facts["bytes"]),
        ("transfer size", found.packed),
        ("transfer size as a delta of its parent", found.changed),
        ("trained on", trained if facts["trained_messages"] is not None else None),
        ("saved on later messages", format_percent(facts["saved"])),
        ("lineage", ", ".join(hash[:SHORT] for hash in found.lineage) or None),
        ("stored for", ", ".join(found.topics) or None),
    ]


def _list_cells(row: ListedDictionary) -> list[Any]:
    until, parent = format_time(row.reference.expires), row.reference.parent[:SHORT] or None
    if row.dictionary is None:
        return [row.topic, row.reference.hash[:SHORT], "missing", None, None, None, None, until, parent]
    facts = facts_of(row.dictionary)
    codec = f"{facts['codec']} {facts['level']}"
    numbers = [facts["bytes"], facts["trained_messages"], format_percent(facts["saved"])]
    return [row.topic, row.reference.hash[:SHORT], row.state, codec, *numbers, until, parent]


def _list_document(row: ListedDictionary) -> dict[str, Any]:
    facts = facts_of(row.dictionary) if row.dictionary is not None else {}
    reference = {"hash": row.reference.hash, "expires": row.reference.expires, "parent": row.reference.parent}
    return {"topic": row.topic, **facts, **reference, "state": row.state, "there": row.dictionary is not None}


def _decision_cells(one: Decision) -> list[Any]:
    because = ", ".join(f"{name} {format_cell(value)}" for name, value in (one.why or {}).items())
    until = format_time(one.expires) if one.expires else None
    return [format_time(one.time), one.kind, one.hash[:SHORT] or None, until, one.travels or None, because]
