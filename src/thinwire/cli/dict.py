"""`thinwire dict train | list | show | why | verify`: what is shared about the bytes of a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from thinwire.cli.connection_options import DEFAULT_URL, NOBODY, Access, Identity, UrlOption, identified
from thinwire.cli.dict_output import show_checked, show_decisions, show_listed, show_one
from thinwire.cli.dict_store import check, described, list_decisions, listed
from thinwire.cli.dict_train import train
from thinwire.cli.main import PEER_FAULT
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import run

dictionaries = typer.Typer(add_completion=False, no_args_is_help=True, help="What is shared about a topic's bytes.")
dictionaries.command()(train)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Such as building.rooms.")]
OneTopicArgument = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only those of this topic.")]
WhichArgument = Annotated[
    str, typer.Argument(metavar="HASH|FILE", help="A file of `dict train`, or a hash; its first digits will do.")
]
AnyArgument = Annotated[str, typer.Argument(metavar="HASH|FILE|TOPIC", help="One dictionary, or all of a topic.")]


@dictionaries.command("list")
@identified
def list_(
    topic: OneTopicArgument = None,
    to: UrlOption = DEFAULT_URL,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """List the dictionaries that the store has, topic by topic.

    One is used at a time, the one whose expiry lies farthest ahead. The
    others are kept for as long as the log has frames that need them.

    \b
    thinwire dict list
    thinwire dict list building.rooms --json
    """
    show_listed(Output(json), run(listed(Access(to, who), topic)))


@dictionaries.command()
@identified
def show(
    which: WhichArgument,
    to: UrlOption = DEFAULT_URL,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Say what a dictionary was trained on, what it costs, and what is in it.

    Its content ends with what is worth most, so that is what is printed.
    A file needs no broker.

    \b
    thinwire dict show rooms.dict
    thinwire dict show 9f2c51
    """
    show_one(Output(json), run(described(Access(to, who), which)))


@dictionaries.command()
@identified
def why(
    topic: TopicArgument,
    to: UrlOption = DEFAULT_URL,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Say what was decided about a topic's dictionaries, and the numbers behind it.

    \b
    thinwire dict why building.rooms
    """
    show_decisions(Output(json), topic, run(list_decisions(Access(to, who), topic)))


@dictionaries.command()
@identified
def verify(
    which: AnyArgument,
    to: UrlOption = DEFAULT_URL,
    who: Identity = NOBODY,
    json: JsonOption = False,
) -> None:
    """Check that dictionaries are what their hashes say, and that none is missing.

    Of a topic the whole log is read: every dictionary that it needs must be
    in the store. Leaves with 3 where one is missing or is another.

    \b
    thinwire dict verify building.rooms
    thinwire dict verify rooms.dict
    """
    checked = run(check(Access(to, who), which))
    show_checked(Output(json), which, checked)
    if any(not one.good for one in checked):
        raise typer.Exit(PEER_FAULT)
