"""Who calls: the options by which a verb says so at a broker, written once for all verbs.

A verb takes them as one argument, `who`, and `identified` turns that into options of the command line:

>>> import inspect
>>> @identified
... def greet(to: str, who: Identity = NOBODY) -> None: ...
>>> list(inspect.signature(greet).parameters)
['to', 'token_file', 'creds', 'ca', 'cert', 'key']
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.errors import ConfigError

TOKEN_VARIABLE = "THINWIRE_TOKEN"
"""names the variable; a token on the command line would show in the list of processes"""
_FILE: dict[str, Any] = {"metavar": "FILE", "rich_help_panel": "Who you are"}
_OPTIONS = {
    "token_file": typer.Option("--token-file", help=f"A file with the token, else ${TOKEN_VARIABLE}.", **_FILE),
    "creds": typer.Option("--creds", help="A NATS credentials file.", **_FILE),
    "ca": typer.Option("--ca", help="Who signed the broker's certificate (PEM).", **_FILE),
    "cert": typer.Option("--cert", help="The certificate to show (PEM).", **_FILE),
    "key": typer.Option("--key", help="Its private key (PEM).", **_FILE),
}
_WHO = "who"


@dataclass(frozen=True)
class Identity:
    """Files that say who somebody is, and whom to believe."""

    token_file: Path | None = None
    creds: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def options(self) -> dict[str, str]:
        """What a connection is told of it."""
        given = {
            "token": self._token(),
            "credentials": self.creds,
            "ca": self.ca,
            "certificate": self.cert,
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


NOBODY = Identity()


def identified(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each part of its argument `who`."""
    taken = inspect.signature(verb, eval_str=True)

    @wraps(verb)
    def with_options(**given: Any) -> None:
        verb(who=Identity(**{name: given.pop(name) for name in _OPTIONS}), **given)

    shown = taken.replace(parameters=list(_spread(taken)))
    with_options.__signature__ = shown  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in shown.parameters.values()}
    return with_options


def _spread(taken: inspect.Signature) -> Iterator[inspect.Parameter]:
    for parameter in taken.parameters.values():
        if parameter.name == _WHO:
            yield from (
                parameter.replace(name=name, annotation=Annotated[Path | None, option], default=None)
                for name, option in _OPTIONS.items()
            )
        else:
            yield parameter
