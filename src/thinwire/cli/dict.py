"""`thinwire dict train | list | show | why | verify`: dictionaries of topics."""

from __future__ import annotations

from typing import Annotated

import typer

from thinwire.cli.connection_options import (
    DEFAULT_URL,
    NO_CREDENTIALS,
    BrokerAccess,
    Credentials,
    UrlOption,
    with_credentials,
)
from thinwire.cli.dict_output import show_decisions, show_dictionary, show_list, show_verification
from thinwire.cli.dict_store import describe_dictionary, list_decisions, list_dictionaries, verify_dictionaries
from thinwire.cli.dict_train import train
from thinwire.cli.main import PEER_FAULT
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import run

dictionaries = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Train, list, show and verify dictionaries."
)
dictionaries.command()(train)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="For example building.rooms.")]
OneTopicArgument = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only dictionaries of this topic.")]
WhichArgument = Annotated[
    str, typer.Argument(metavar="HASH|FILE", help="A file of `dict train`, or a hash or its first digits.")
]
AnyArgument = Annotated[str, typer.Argument(metavar="HASH|FILE|TOPIC", help="One dictionary, or all of a topic.")]


@dictionaries.command("list")
@with_credentials
def list_(
    topic: OneTopicArgument = None,
    to: UrlOption = DEFAULT_URL,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """List the stored dictionaries by topic.

    Publishers use the one with the latest expiry. The others are stored as
    long as the log contains frames that need them.

    \b
    thinwire dict list
    thinwire dict list building.rooms --json
    """
    show_list(Output(json), run(list_dictionaries(BrokerAccess(to, credentials), topic)))


@dictionaries.command()
@with_credentials
def show(
    which: WhichArgument,
    to: UrlOption = DEFAULT_URL,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """Show the training data, the size and the content of a dictionary.

    The most valuable content is at the end, so the end is printed.
    A file needs no broker.

    \b
    thinwire dict show rooms.dict
    thinwire dict show 9f2c51
    """
    show_dictionary(Output(json), run(describe_dictionary(BrokerAccess(to, credentials), which)))


@dictionaries.command()
@with_credentials
def why(
    topic: TopicArgument,
    to: UrlOption = DEFAULT_URL,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """Show the decisions about the dictionaries of a topic, with the figures behind them.

    \b
    thinwire dict why building.rooms
    """
    show_decisions(Output(json), topic, run(list_decisions(BrokerAccess(to, credentials), topic)))


@dictionaries.command()
@with_credentials
def verify(
    which: AnyArgument,
    to: UrlOption = DEFAULT_URL,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonOption = False,
) -> None:
    """Verify the hashes of dictionaries, and that none is missing.

    For a topic the whole log is read: every dictionary that it needs must be
    stored. Exits with 3 if one is missing or its content does not match.

    \b
    thinwire dict verify building.rooms
    thinwire dict verify rooms.dict
    """
    verified = run(verify_dictionaries(BrokerAccess(to, credentials), which))
    show_verification(Output(json), which, verified)
    if any(not one.good for one in verified):
        raise typer.Exit(PEER_FAULT)
