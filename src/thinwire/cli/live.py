"""What the verbs on a live broker share: where it is and who calls, and an end that is always clean.

>>> pairs(["temperature=0.5", "humidity=1%"], "--tolerance")
{'temperature': '0.5', 'humidity': '1%'}
>>> tolerances(["temperature=0.5", "humidity=1%"])
{'temperature': 0.5, 'humidity': '1%'}
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self, TypeVar

import typer

from thinwire.client.bus import Bus, connect
from thinwire.client.urls import read_url
from thinwire.errors import ConfigError, SchemaError
from thinwire.events import Schema, from_turtle

DEFAULT_URL = "nats://127.0.0.1:4222"
TOKEN_VARIABLE = "THINWIRE_TOKEN"
"""names the variable; a token on the command line would show in the list of processes"""

_WHO = "Who you are"
_FILE = {"metavar": "FILE", "rich_help_panel": _WHO}

UrlOption = Annotated[str, typer.Option("--to", metavar="URL", envvar="THINWIRE_URL", help="The broker.")]
TokenOption = Annotated[
    Path | None, typer.Option("--token-file", help=f"A file with the token, else ${TOKEN_VARIABLE}.", **_FILE)
]
CredentialsOption = Annotated[Path | None, typer.Option("--creds", help="A NATS credentials file.", **_FILE)]
CaOption = Annotated[Path | None, typer.Option("--ca", help="Who signed the broker's certificate (PEM).", **_FILE)]
CertificateOption = Annotated[Path | None, typer.Option("--cert", help="The certificate to show (PEM).", **_FILE)]
KeyOption = Annotated[Path | None, typer.Option("--key", help="Its private key (PEM).", **_FILE)]
TolerancesOption = Annotated[
    list[str] | None,
    typer.Option("--tolerance", metavar="NAME=X", help="How far this property may be off; repeat it for others."),
]
DefaultToleranceOption = Annotated[
    float, typer.Option("--default-tolerance", metavar="X", min=0, help="The same for all other measurements.")
]
SchemaFileOption = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="The schema, in Turtle, or JSON if it ends in .json.")
]

CLOSING = 5.0
"""seconds that publishers and subscribers have to close in order after Ctrl-C"""

T = TypeVar("T")


@dataclass(frozen=True)
class Access:
    """Where the broker is, and how to be known there."""

    url: str
    token_file: Path | None = None
    credentials: Path | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return read_url(self.url).shown

    def bus(self, name: str = "") -> Bus:
        """A bus there, not open yet."""
        return connect(self.url, name=name, **self.options())

    def options(self) -> dict[str, Any]:
        """What the connection is told beside its address."""
        given = {
            "token": self._token(),
            "credentials": self.credentials,
            "ca": self.ca,
            "certificate": self.certificate,
            "key": self.key,
        }
        return {name: str(value) for name, value in given.items() if value}

    def _token(self) -> str:
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE, "")
        token = self.token_file.read_text().strip()
        if not token:
            raise ConfigError("there is no token in it", token_file=str(self.token_file))
        return token


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end. Ctrl-C and SIGTERM cancel it, so that what is open gets closed; then it is interrupted."""
    logging.basicConfig(format="thinwire: %(message)s", level=logging.WARNING)
    try:
        return asyncio.run(_until_terminated(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """SIGTERM does what Ctrl-C does by itself; also where a shell has made the process ignore the latter."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await work
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


class Interruptible:
    """Inside, Ctrl-C ends what is being waited for and nothing more: the verb goes on behind it and closes in order.

    patience: seconds that may take; a broker that has gone must not keep anybody
    interrupted: did that happen?
    """

    def __init__(self, patience: float | None = None) -> None:
        self.patience = patience
        self.interrupted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        task = asyncio.current_task()
        if kind is asyncio.CancelledError and task is not None and task.cancelling():
            task.uncancel()
            self.interrupted = True
            if self.patience is not None:
                asyncio.get_running_loop().call_later(self.patience, _give_up, task)
        return self.interrupted


def _give_up(task: asyncio.Task[Any]) -> None:
    print("thinwire: the broker does not answer; what it has not stored is lost", file=sys.stderr)
    task.cancel()


def pairs(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """What NAME=VALUE options say."""
    found = {}
    for text in texts or ():
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise ConfigError("write NAME=VALUE", **{option.lstrip("-"): text})
        found[name] = value
    return found


def tolerances(texts: Iterable[str] | None) -> dict[str, float | str]:
    """What `--tolerance` options say: numbers, or percentages of a property's range."""
    found: dict[str, float | str] = {}
    for name, value in pairs(texts, "--tolerance").items():
        try:
            found[name] = value if value.endswith("%") else float(value)
        except ValueError:
            raise ConfigError("a tolerance is a number, or a percentage such as 1%", **{name: value}) from None
    return found


def names(text: str | None) -> list[str] | None:
    """A list joined by commas."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def read_schema(path: Path | None) -> Schema | None:
    """The schema in a file; None where no file is given."""
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
        return Schema.from_document(json.loads(text)) if path.suffix == ".json" else from_turtle(text)
    except ValueError as problem:
        raise SchemaError(f"not a schema: {problem}", file=str(path)) from None
