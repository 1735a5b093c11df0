"""The program `thinwire`: a table of commands, each imported when it is called.

The module of a command exposes a function, or a `typer.Typer` if the command has subcommands, under the attribute named
in the table. Nothing else is imported, so `thinwire --help` is fast and a command whose extra is not installed does not
affect the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Any, NamedTuple

import typer

from thinwire.cli.version import installed_version
from thinwire.errors import PeerFault, ThinwireError

BROKEN_PIPE, LOCAL_FAULT, PEER_FAULT, INTERRUPTED = 1, 2, 3, 130


class Command(NamedTuple):
    """Location and help text of a command."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "up": Command("thinwire.cli.up", "up", "Start a broker and the services on this machine."),
    "pub": Command("thinwire.cli.pub", "pub", "Publish events from JSON lines."),
    "sub": Command("thinwire.cli.sub", "sub", "Print the events of a topic as JSON lines."),
    "watch": Command("thinwire.cli.watch", "watch", "Print a line when quantities of several topics have moved."),
    "record": Command("thinwire.cli.record", "record", "Copy the logs of topics into files, or describe such files."),
    "ingest": Command("thinwire.cli.ingest", "ingest", "Write topics to a Parquet table, on Spark."),
    "replay": Command("thinwire.cli.replay", "replay", "Publish the rows of a table on a topic, on Spark."),
    "analyze": Command("thinwire.cli.analyze", "analyze", "Estimate the savings on recorded events, and write a plan."),
    "edge": Command("thinwire.cli.edge", "edge", "Run an edge host that processes the topics assigned to it."),
    "place": Command("thinwire.cli.place", "place", "Place topics on edge hosts within a latency limit."),
    "dict": Command("thinwire.cli.dict", "dictionaries", "Train, list, show and verify dictionaries."),
    "registry": Command("thinwire.cli.registry", "registry", "Show registered topics, schemas and subscriptions."),
    "doctor": Command("thinwire.cli.doctor", "doctor", "Check this machine and the broker."),
    "demo": Command("thinwire.cli.demo", "demo", "Run the whole system on this machine, with a live view."),
    "ledger": Command("thinwire.cli.ledger", "ledger", "Show the ledger of a run."),
    "version": Command("thinwire.cli.version", "version", "Show installed packages and extras."),
}

EXTRAS = {
    "aiokafka": "kafka",
    "aiomqtt": "mqtt",
    "matplotlib": "plots",
    "nats": "nats",
    "pandas": "spark",
    "pyspark": "spark",
}
"""module -> the extra that installs it"""

# The command itself parses its arguments, `--help` included.
_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def build(commands: dict[str, Command]) -> typer.Typer:
    """Return the program with these commands, without importing them."""
    app = typer.Typer(name="thinwire", add_completion=False, no_args_is_help=True)
    app.callback()(_top)
    for name, command in commands.items():
        app.command(name, help=command.help, context_settings=_PASS_THROUGH)(_import_and_call(name, command))
    return app


def installed_commands() -> dict[str, Command]:
    """Return the commands of this package and of other distributions (entry point group `thinwire.verbs`)."""
    found = dict(COMMANDS)
    for entry in entry_points(group="thinwire.verbs"):
        found.update(entry.load())
    return found


def main(args: Sequence[str] | None = None, *, commands: dict[str, Command] | None = None) -> int:
    """Run one command and return the exit code. A known error is one line on stderr, without a traceback."""
    try:
        code = _run(build(installed_commands() if commands is None else commands), "thinwire", args)
        sys.stdout.flush()
        return code
    except ThinwireError as error:
        return _print_error(str(error), PEER_FAULT if isinstance(error, PeerFault) else LOCAL_FAULT)
    except ModuleNotFoundError as missing:
        extra = EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        install = f"pip install 'thinwire[{extra}]'"
        return _print_error(f"this needs the extra {extra} ({missing.name} is missing): {install}", LOCAL_FAULT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return BROKEN_PIPE
    except OSError as error:
        return _print_error(str(error), LOCAL_FAULT)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"thinwire {installed_version()}")
        raise typer.Exit


# Eager: evaluated before typer reports a missing command.
_VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
]


def _top(version: _VersionOption = False) -> None:
    """Publish/subscribe with less bandwidth: subscribers state tolerances, publishers send what they cannot predict."""


def _import_and_call(name: str, command: Command) -> Callable[[typer.Context], None]:
    def call(context: typer.Context) -> None:
        target = getattr(import_module(command.module), command.attribute)
        raise typer.Exit(_run(_as_app(target, command), f"thinwire {name}", context.args))

    return call


def _as_app(target: Any, command: Command) -> typer.Typer:
    if isinstance(target, typer.Typer):
        return target
    app = typer.Typer(add_completion=False)
    app.command(help=target.__doc__ or command.help)(target)
    return app


def _run(app: typer.Typer, name: str, args: Sequence[str] | None) -> int:
    """Parse the arguments and run; typer prints usage errors. Return the exit code."""
    try:
        typer.main.get_command(app).main(args=args, prog_name=name)
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    return 0


def _print_error(text: str, code: int) -> int:
    print(f"thinwire: {text}", file=sys.stderr)
    return code


def _discard_stdout() -> None:
    """Redirect stdout to the null device, so that the flush at exit does not fail on the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
