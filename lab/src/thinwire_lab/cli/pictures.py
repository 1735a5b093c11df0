"""Pictures of commands, drawn with the extra `plots`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinwire.cli.output import Output


def draw_pictures(output: Output, plot: Callable[..., list[Path]], *arguments: Any) -> list[Path]:
    """Draw pictures and print their paths. Without the extra `plots` there are none."""
    if find_spec("matplotlib") is None:
        output.note("no pictures: the extra plots is not installed.")
        return []
    pictures = plot(*arguments)
    output.note("pictures: " + ", ".join(map(str, pictures)))
    return pictures
