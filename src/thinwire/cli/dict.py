"""`thinwire dict train | list | show | why | verify`: dictionaries of topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from thinwire.cli.connection_options import BrokerAccess, TopicArgument
from thinwire.cli.dict_store import describe_dictionary, list_decisions, list_dictionaries, verify_dictionaries
from thinwire.cli.dict_train import train
from thinwire.cli.main import PEER_FAULT
from thinwire.cli.option_groups import with_options
from thinwire.cli.output import Column, Output, format_cell, format_percent, format_time
from thinwire.cli.terminal import run
from thinwire.topics.dictionary_documents import Decision

SHORT = 12
"""digits of a hash in a table"""

dictionaries = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Train, list, show and verify dictionaries."
)
dictionaries.command()(train)

OneTopicArgument = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only dictionaries of this topic.")]
WhichArgument = Annotated[
    str, typer.Argument(metavar="HASH|FILE", help="A file of `dict train`, or a hash or its first digits.")
]
AnyArgument = Annotated[str, typer.Argument(metavar="HASH|FILE|TOPIC", help="One dictionary, or all of a topic.")]


def _codec(row: dict[str, Any]) -> str | None:
    return f"{row['codec']} {row['level']}" if row["there"] else None


_LIST_COLUMNS: dict[str, Column] = {
    "topic": "topic",
    "dictionary": lambda row: row["hash"][:SHORT],
    "state": lambda row: row["state"] if row["there"] else "missing",
    "codec": _codec,
    "bytes": lambda row: row.get("bytes"),
    "trained on": lambda row: row.get("trained_messages"),
    "saved": lambda row: format_percent(row.get("saved")),
    "until": lambda row: format_time(row["expires"]),
    "parent": lambda row: row["parent"][:SHORT] or None,
}


@dictionaries.command("list")
@with_options
def list_(topic: OneTopicArgument = None, *, broker: BrokerAccess, output: Output) -> None:
    """List the stored dictionaries by topic.

    Publishers use the one with the latest expiry. The others are stored as
    long as the log contains frames that need them.

    \b
    thinwire dict list
    thinwire dict list building.rooms --json
    """
    rows = run(list_dictionaries(broker, topic))
    output.records("dictionaries", _LIST_COLUMNS, rows)
    if not rows:
        output.note(
            "no topic has a dictionary: train one with `thinwire dict train --from ... --to URL --topic TOPIC`."
        )
    output.document({"dictionaries": rows})


@dictionaries.command()
@with_options
def show(which: WhichArgument, *, broker: BrokerAccess, output: Output) -> None:
    """Show the training data, the size and the content of a dictionary.

    The most valuable content is at the end, so the end is printed.
    A file needs no broker.

    \b
    thinwire dict show rooms.dict
    thinwire dict show 9f2c51
    """
    found = run(describe_dictionary(broker, which))
    output.facts(f"dictionary {found['hash']}", _facts(found))
    output.table("end of the content, most valuable first", ("content",), ([line] for line in found["content"]))
    output.document(found)


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of the table for a dictionary."""
    trained = f"{format_cell(found['trained_messages'])} messages, {format_cell(found['trained_bytes'])} bytes"
    return {
        "codec": f"{found['codec']}, level {found['level']}",
        "for messages up to": found["largest"],
        "bytes": found["bytes"],
        "transfer size": found["packed"],
        "transfer size as a delta of its parent": found["changed"],
        "trained on": trained if found["trained_messages"] is not None else None,
        "saved on later messages": format_percent(found["saved"]),
        "lineage": ", ".join(hash[:SHORT] for hash in found["lineage"]) or None,
        "stored for": ", ".join(found["topics"]) or None,
    }


def _reasons(decision: Decision) -> str:
    return ", ".join(f"{name} {format_cell(value)}" for name, value in (decision.why or {}).items())


_DECISION_COLUMNS: dict[str, Column] = {
    "when": lambda decision: format_time(decision.time),
    "decision": "kind",
    "dictionary": lambda decision: decision.hash[:SHORT] or None,
    "until": lambda decision: format_time(decision.expires) if decision.expires else None,
    "transfer size": lambda decision: decision.transfer_size or None,
    "because": _reasons,
}


@dictionaries.command()
@with_options
def why(topic: TopicArgument, *, broker: BrokerAccess, output: Output) -> None:
    """Show the decisions about the dictionaries of a topic, with the figures behind them.

    \b
    thinwire dict why building.rooms
    """
    decisions = run(list_decisions(broker, topic))
    output.records(f"{topic}: latest decisions", _DECISION_COLUMNS, decisions)
    if not decisions:
        output.note(
            "no decisions: check that dictionaries are enabled for the topic and that the dictionary trainer runs"
        )
    output.document({"topic": topic, "decisions": decisions})


@dictionaries.command()
@with_options
def verify(which: AnyArgument, *, broker: BrokerAccess, output: Output) -> None:
    """Verify the hashes of dictionaries, and that none is missing.

    For a topic the whole log is read: every dictionary that it needs must be
    stored. Exits with 3 if one is missing or its content does not match.

    \b
    thinwire dict verify building.rooms
    thinwire dict verify rooms.dict
    """
    verified = run(verify_dictionaries(broker, which))
    output.records(which, {"dictionary": "hash", "needed by": "needed", "verdict": "verdict"}, verified)
    bad = sum(not result.is_good for result in verified)
    output.note(f"{bad} of {len(verified)} are damaged or missing" if bad else f"all {len(verified)} are good")
    output.document({"which": which, "good": not bad, "dictionaries": verified})
    if bad:
        raise typer.Exit(PEER_FAULT)
