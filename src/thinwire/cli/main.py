"""The command `thinwire`: a table of verbs, each imported only when it is called.

A verb's module exposes a function (one command) or a `typer.Typer` (a command with verbs of its own) under the name
the table gives. Because nothing is imported before it is needed, `thinwire --help` is quick, and a verb whose extra is
not installed harms no other.
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


class Verb(NamedTuple):
    """Where a verb lives and what it is for."""

    module: str
    attribute: str
    help: str


VERBS = {
    "up": Verb("thinwire.cli.up", "up", "Start a broker and the services on this machine."),
    "pub": Verb("thinwire.cli.pub", "pub", "Publish events from JSON lines."),
    "sub": Verb("thinwire.cli.sub", "sub", "Print the events of a topic as JSON lines."),
    "watch": Verb("thinwire.cli.watch", "watch", "Print when quantities of several topics have moved."),
    "record": Verb("thinwire.cli.record", "record", "Copy the logs of topics into files, and say what is in them."),
    "ingest": Verb("thinwire.cli.ingest", "ingest", "Land topics in a Parquet table, on Spark."),
    "replay": Verb("thinwire.cli.replay", "replay", "Play a table back onto a topic, on Spark."),
    "analyze": Verb("thinwire.cli.analyze", "analyze", "What would be saved on recorded events, and the plan for it."),
    "deliver": Verb("thinwire.cli.deliver", "deliver", "What thresholds would deliver of recorded events, on Spark."),
    "sweep": Verb("thinwire.cli.sweep", "sweep", "Any function over a grid of parameters, on Spark."),
    "edge": Verb("thinwire.cli.edge", "edge", "A host that runs the functions of the topics assigned to it."),
    "place": Verb("thinwire.cli.place", "place", "Topics on edge hosts under a latency promise."),
    "dict": Verb("thinwire.cli.dict", "dictionaries", "Dictionaries: train, list, look at and check them."),
    "registry": Verb("thinwire.cli.registry", "registry", "What is known of topics, schemas and subscribers."),
    "doctor": Verb("thinwire.cli.doctor", "doctor", "Is everything as it should be, here and at the broker?"),
    "demo": Verb("thinwire.cli.demo", "demo", "The whole system on this machine, with a live view."),
    "ledger": Verb("thinwire.cli.ledger", "ledger", "Show what a run wrote into its ledger."),
    "version": Verb("thinwire.cli.version", "version", "What is installed here, and which extras."),
}

EXTRAS = {
    "aiokafka": "kafka",
    "aiomqtt": "mqtt",
    "fastavro": "evaluation",
    "hypothesis": "testing",
    "matplotlib": "plots",
    "nats": "nats",
    "pandas": "spark",
    "psutil": "evaluation",
    "pyspark": "spark",
}
"""module -> the extra that brings it"""

# The verb itself parses what follows its name, `--help` included.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def build(verbs: dict[str, Verb]) -> typer.Typer:
    """The command with these verbs, none of them imported yet."""
    app = typer.Typer(name="thinwire", add_completion=False, no_args_is_help=True)
    app.callback()(_top)
    for name, verb in verbs.items():
        app.command(name, help=verb.help, context_settings=_PASS_ON)(_call_later(name, verb))
    return app


def installed_verbs() -> dict[str, Verb]:
    """The verbs of this package and of distributions that add some (entry point group `thinwire.verbs`)."""
    found = dict(VERBS)
    for entry in entry_points(group="thinwire.verbs"):
        found.update(entry.load())
    return found


def main(args: Sequence[str] | None = None, *, verbs: dict[str, Verb] | None = None) -> int:
    """Run one verb and return the exit code; a known fault is one line on stderr, never a traceback."""
    try:
        code = _run(build(installed_verbs() if verbs is None else verbs), "thinwire", args)
        sys.stdout.flush()
        return code
    except ThinwireError as fault:
        return _complain(str(fault), PEER_FAULT if isinstance(fault, PeerFault) else LOCAL_FAULT)
    except ModuleNotFoundError as missing:
        extra = EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        install = f"pip install 'thinwire[{extra}]'"
        return _complain(f"this needs the extra {extra} ({missing.name} is missing): {install}", LOCAL_FAULT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return BROKEN_PIPE
    except OSError as trouble:
        return _complain(str(trouble), LOCAL_FAULT)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"thinwire {installed_version()}")
        raise typer.Exit


# Eager: it answers before typer can complain that no verb was given.
_VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True)
]


def _top(version: _VersionOption = False) -> None:
    """Pub/sub that sends less."""


def _call_later(name: str, verb: Verb) -> Callable[[typer.Context], None]:
    def call(context: typer.Context) -> None:
        target = getattr(import_module(verb.module), verb.attribute)
        raise typer.Exit(_run(_as_app(target, verb), f"thinwire {name}", context.args))

    return call


def _as_app(target: Any, verb: Verb) -> typer.Typer:
    if isinstance(target, typer.Typer):
        return target
    app = typer.Typer(add_completion=False)
    app.command(help=target.__doc__ or verb.help)(target)
    return app


def _run(app: typer.Typer, name: str, args: Sequence[str] | None) -> int:
    """Parse and run; complaints about usage are printed by typer, their exit code comes back."""
    try:
        typer.main.get_command(app).main(args=args, prog_name=name)
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    return 0


def _complain(sentence: str, code: int) -> int:
    print(f"thinwire: {sentence}", file=sys.stderr)
    return code


def _abandon_stdout() -> None:
    """The reader has gone: what is still buffered goes nowhere, so that the interpreter's last flush is quiet too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
