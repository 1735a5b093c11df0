"""The contributing page agrees with the code: files, names and defaults."""

from __future__ import annotations

import ast
import re
from inspect import signature
from pathlib import Path

from thinwire.analysis.strategies import Strategy
from thinwire.codec import StreamConfig
from thinwire.services.translator.channel import ChannelSettings
from thinwire.services.translator.translation import Translation
from thinwire.topics.topic_settings import StreamSettings

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "thinwire"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()


def paths() -> set[str]:
    return set(re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md|toml|lock))`", PAGE))


def located_names() -> set[tuple[str, str]]:
    """Pairs of a file and a name that the page states to be in it."""
    return {
        (file, name)
        for file, names in re.findall(r"`([\w/]+\.py)` \((`\w+`(?:, `\w+`)*)\)", PAGE)
        for name in re.findall(r"\w+", names)
    }


def find(path: str) -> Path | None:
    bases = (ROOT, PACKAGE, PACKAGE / "codec", PACKAGE / "topics")
    return next((base / path for base in bases if (base / path).exists()), None)


def test_named_files_exist():
    assert [path for path in sorted(paths()) if find(path) is None] == []


def test_names_are_in_their_files():
    pairs = located_names()
    assert len(pairs) > 25
    assert [(file, name) for file, name in sorted(pairs) if name not in defined(PACKAGE / file)] == []


def defined(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}


def test_defaults_of_the_key_frame_interval_are_equal():
    owners = (StreamConfig, StreamSettings, ChannelSettings, Translation, Strategy)
    assert len({signature(owner).parameters["key_frame_interval"].default for owner in owners}) == 1
