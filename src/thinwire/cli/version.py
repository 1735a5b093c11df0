"""`thinwire version`: installed packages and extras."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as distribution_version

from thinwire.cli.option_groups import with_options
from thinwire.cli.output import Output

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)[^;]*(?:;.*extra == ['\"](?P<extra>[^'\"]+)['\"])?")


@with_options
def version(output: Output) -> None:
    """Show the versions of thinwire, Python, the dependencies and the extras."""
    own = [("thinwire", installed_version(), ""), ("python", platform.python_version(), "")]
    rows = [*own, *((name, _find_version(name), extra) for name, extra in requirements())]
    packages = [{"package": name, "version": found, "extra": extra} for name, found, extra in rows]
    output.records("installed", ("package", "version", "extra"), packages)
    output.document({"packages": packages})


def installed_version() -> str:
    """Return the version of thinwire, or a placeholder for a source tree that is not installed."""
    return _find_version("thinwire") or "unknown (not installed)"


def requirements() -> list[tuple[str, str]]:
    """Return every dependency with the extra that requires it."""
    try:
        lines = requires("thinwire") or []
    except PackageNotFoundError:
        return []
    pairs = {(match["name"], match["extra"] or "") for line in lines if (match := _REQUIREMENT.match(line))}
    return sorted(((n, e) for n, e in pairs if n != "thinwire" and e != "all"), key=lambda pair: pair[::-1])


def _find_version(name: str) -> str | None:
    try:
        return distribution_version(name)
    except PackageNotFoundError:
        return None
