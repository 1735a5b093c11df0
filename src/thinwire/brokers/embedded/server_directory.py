"""The directory of an embedded server: its own while it runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from thinwire.errors import BrokerRefused, ConfigError

_HINTS = {
    "address already in use": "The port is taken: choose another one, or 0 for a free one. ",
    "no space left": "The disk is full: make room, or choose another directory. ",
    "permission denied": "Choose a directory that can be written to. ",
}
_TROUBLE = ("[ERR]", "[FTL]", "[WRN]")


class Directory:
    """A directory that one server at a time may use; a temporary one where none is given."""

    def __init__(self, given: Path | None) -> None:
        self.temporary = given is None
        try:
            self.path = _made(given)
            self.lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise ConfigError(f"the directory cannot be used: {error.strerror}", directory=str(given)) from None
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            advice = "another embedded server works in this directory: stop it, or choose another directory"
            raise BrokerRefused(advice, directory=str(self.path)) from None

    def leave(self) -> None:
        """Let others have it; a temporary one goes."""
        os.close(self.lock)
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def config(self) -> Path:
        return self.path / "server.conf"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def output(self) -> Path:
        """What the server says before it has a log."""
        return self.path / "server.out"

    def write_config(self, text: str) -> None:
        """Only for its owner: it may hold passwords."""
        for stale in self.path.glob("*.ports"):
            stale.unlink()
        self.config.touch(mode=0o600)
        self.config.write_text(text)

    def log_tail(self, lines: int) -> str:
        """The last lines of the log; of what was said before there is one otherwise."""
        for path in (self.log, self.output):
            with suppress(OSError):
                tail = path.read_text(errors="replace").splitlines()[-lines:]
                if tail:
                    return "\n".join(tail)
        return ""

    def trouble(self) -> str:
        """What the log says about a server that did not come up, and what to do about it."""
        tail = self.log_tail(200).splitlines()
        told = "\n".join([line for line in tail if any(sign in line for sign in _TROUBLE)][-8:] or tail[-8:])
        hint = "".join(advice for sign, advice in _HINTS.items() if sign in told.lower())
        return f"{hint}Its log ends with:\n{told}\n"


def _made(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="thinwire-nats-"))
    given.mkdir(parents=True, exist_ok=True)
    return given.resolve()
