"""`thinwire dict train | list | show | why | verify`: dictionaries of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import BrokerAccess, TopicArgument, with_options
from thinwire.cli.dict_store import (
    DictionaryDescription,
    ListedDictionary,
    VerifiedDictionary,
    describe_dictionary,
    dictionary_facts,
    list_decisions,
    list_dictionaries,
    verify_dictionaries,
)
from thinwire.cli.dict_train import train
from thinwire.cli.main import PEER_FAULT
from thinwire.cli.output import Column, JsonOption, Output, format_cell, format_percent, format_time
from thinwire.cli.terminal import run
from thinwire.topics.dictionary_documents import Decision

dictionaries = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Train, list, show and verify dictionaries."
)
dictionaries.command()(train)

OneTopicArgument = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only dictionaries of this topic.")]
WhichArgument = Annotated[
    str, typer.Argument(metavar="HASH|FILE", help="A file of `dict train`, or a hash or its first digits.")
]
AnyArgument = Annotated[str, typer.Argument(metavar="HASH|FILE|TOPIC", help="One dictionary, or all of a topic.")]


@dictionaries.command("list")
@with_options
def list_(topic: OneTopicArgument = None, *, broker: BrokerAccess, json: JsonOption = False) -> None:
    """List the stored dictionaries by topic.

    Publishers use the one with the latest expiry. The others are stored as
    long as the log contains frames that need them.

    \b
    thinwire dict list
    thinwire dict list building.rooms --json
    """
    _show_list(Output(json), run(list_dictionaries(broker, topic)))


@dictionaries.command()
@with_options
def show(which: WhichArgument, *, broker: BrokerAccess, json: JsonOption = False) -> None:
    """Show the training data, the size and the content of a dictionary.

    The most valuable content is at the end, so the end is printed.
    A file needs no broker.

    \b
    thinwire dict show rooms.dict
    thinwire dict show 9f2c51
    """
    _show_dictionary(Output(json), run(describe_dictionary(broker, which)))


@dictionaries.command()
@with_options
def why(topic: TopicArgument, *, broker: BrokerAccess, json: JsonOption = False) -> None:
    """Show the decisions about the dictionaries of a topic, with the figures behind them.

    \b
    thinwire dict why building.rooms
    """
    _show_decisions(Output(json), topic, run(list_decisions(broker, topic)))


@dictionaries.command()
@with_options
def verify(which: AnyArgument, *, broker: BrokerAccess, json: JsonOption = False) -> None:
    """Verify the hashes of dictionaries, and that none is missing.

    For a topic the whole log is read: every dictionary that it needs must be
    stored. Exits with 3 if one is missing or its content does not match.

    \b
    thinwire dict verify building.rooms
    thinwire dict verify rooms.dict
    """
    verified = run(verify_dictionaries(broker, which))
    _show_verification(Output(json), which, verified)
    if not all(result.is_good for result in verified):
        raise typer.Exit(PEER_FAULT)


SHORT = 12
"""digits of a hash in a table"""
PIECES, PIECE = 8, 100
"""number of printed lines of content, and characters per line"""


def _facts(row: ListedDictionary) -> dict[str, Any]:
    return dictionary_facts(row.dictionary) if row.dictionary is not None else {}


def _codec(row: ListedDictionary) -> str | None:
    return f"{row.dictionary.codec} {row.dictionary.level}" if row.dictionary is not None else None


_LIST_COLUMNS: dict[str, Column] = {
    "topic": "topic",
    "dictionary": lambda row: row.reference.hash[:SHORT],
    "state": lambda row: row.state if row.dictionary is not None else "missing",
    "codec": _codec,
    "bytes": lambda row: _facts(row).get("bytes"),
    "trained on": lambda row: _facts(row).get("trained_messages"),
    "saved": lambda row: format_percent(_facts(row).get("saved")),
    "until": lambda row: format_time(row.reference.expires),
    "parent": lambda row: row.reference.parent[:SHORT] or None,
}


def _show_list(output: Output, rows: Sequence[ListedDictionary]) -> None:
    output.records("dictionaries", _LIST_COLUMNS, rows)
    if not rows:
        output.note(
            "no topic has a dictionary: train one with `thinwire dict train --from ... --to URL --topic TOPIC`."
        )
    output.document({"dictionaries": [_list_document(row) for row in rows]})


def _list_document(row: ListedDictionary) -> dict[str, Any]:
    reference = {"hash": row.reference.hash, "expires": row.reference.expires, "parent": row.reference.parent}
    return {"topic": row.topic, **_facts(row), **reference, "state": row.state, "there": row.dictionary is not None}


def _show_dictionary(output: Output, found: DictionaryDescription) -> None:
    facts = dictionary_facts(found.dictionary)
    trained = f"{format_cell(facts['trained_messages'])} messages, {format_cell(facts['trained_bytes'])} bytes"
    description = {
        "codec": f"{facts['codec']}, level {facts['level']}",
        "for messages up to": facts["largest"],
        "bytes": facts["bytes"],
        "transfer size": found.packed,
        "transfer size as a delta of its parent": found.changed,
        "trained on": trained if facts["trained_messages"] is not None else None,
        "saved on later messages": format_percent(facts["saved"]),
        "lineage": ", ".join(hash[:SHORT] for hash in found.lineage) or None,
        "stored for": ", ".join(found.topics) or None,
    }
    output.facts(f"dictionary {facts['hash']}", description)
    pieces = readable(found.dictionary.content)
    output.table("end of the content, most valuable first", ("content",), ([piece] for piece in pieces))
    origin = {"packed": found.packed, "changed": found.changed, "lineage": found.lineage, "topics": found.topics}
    output.document({**facts, **origin, "content": pieces})


def _reasons(decision: Decision) -> str:
    return ", ".join(f"{name} {format_cell(value)}" for name, value in (decision.why or {}).items())


_DECISION_COLUMNS: dict[str, Column] = {
    "when": lambda decision: format_time(decision.time),
    "decision": "kind",
    "dictionary": lambda decision: decision.hash[:SHORT] or None,
    "until": lambda decision: format_time(decision.expires) if decision.expires else None,
    "bytes to each": lambda decision: decision.travels or None,
    "because": _reasons,
}


def _show_decisions(output: Output, topic: str, decisions: Sequence[Decision]) -> None:
    newest_first = decisions[::-1]
    output.records(f"{topic}: latest decisions", _DECISION_COLUMNS, newest_first)
    if not decisions:
        output.note(
            "no decisions: check that dictionaries are enabled for the topic and that the dictionary trainer runs"
        )
    output.document({"topic": topic, "decisions": newest_first})


def _show_verification(output: Output, which: str, checked: Sequence[VerifiedDictionary]) -> None:
    output.records(which, {"dictionary": "hash", "needed by": "needed", "verdict": "verdict"}, checked)
    bad = sum(not result.is_good for result in checked)
    output.note(f"{bad} of {len(checked)} are damaged or missing" if bad else f"all {len(checked)} are good")
    output.document({"which": which, "good": not bad, "dictionaries": checked})


def readable(content: bytes, pieces: int = PIECES, width: int = PIECE) -> list[str]:
    """Return the last bytes of a dictionary as text, last piece first; unprintable characters become dots.

    >>> readable(b"\\x00" * 90 + b'{"room": "11.1", ', pieces=2, width=10)
    [': "11.1", ', '···{"room"']
    """
    text = content[-pieces * width :].decode("utf-8", "replace")
    printable = "".join(char if char.isprintable() and char != "\ufffd" else "·" for char in text)
    lines = [printable[max(0, end - width) : end] for end in range(len(printable), 0, -width)]
    return [line for line in lines if line.strip("· ")]
