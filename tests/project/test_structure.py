"""Limits of the source trees: file size, unique class names, plain words in names and prose."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("src/thinwire", "lab/src")
MAX_LINES = 400

_NAME_PARTS = """
    afresh asked crowd debtor dues farewell habits hear heard janitor knowing knowledge mourned nobody owe owed owes
    patience restless said shelf somebody stands stood tell telling tells told untold voices vouched whim who whoever
    whom
"""
NAME_PARTS = frozenset(_NAME_PARTS.split())
"""words that no identifier contains; identifiers are split at underscores and capital letters"""

PROSE = re.compile(
    r"\b(tells?|told|untold|hears?|heard|owe[sd]?|whoever|nobody|somebody|anybody|everybody|looks? after|looked after"
    r"|worked off|passed over|go(es)? over|went over|where (it|everything) stands|stands at|as far as (it|they)"
    r"|in silence|mourn\w*|of so many|after so many)\b",
    re.IGNORECASE,
)
"""words that no docstring, comment or message contains"""

ALLOWED = {
    "asked": ("workload/scenarios/scenario_outcome.py",),  # a key of results
    "tell": ("brokers/recording/", "brokers/nats/blocking/"),  # `tell` of a file object
    "told": ("ledger/row.py", "workload/scenarios/scenario_outcome.py", "workload/summary.py"),  # keys of results
}
"""words with a legitimate use -> parts of the paths where they may occur"""


def sources(tree: str) -> list[Path]:
    return sorted((ROOT / tree).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


ALL = [path for tree in TREES for path in sources(tree)]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, and string literals with a space: docstrings, messages, help texts."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            lines = (line for line in node.value.splitlines() if not line.lstrip().startswith((">>>", "...")))
            yield node.lineno, "\n".join(lines)


def is_allowed(word: str, path: Path) -> bool:
    return any(part in relative(path) for part in ALLOWED.get(word.lower(), ()))


def findings(path: Path) -> list[str]:
    found = []
    for line, name in identifiers(parsed(path)):
        parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
        found += [f"{line}: name {name}" for word in parts if word in NAME_PARTS and not is_allowed(word, path)]
    for line, text in prose(path):
        found += [f"{line}: {hit[0]!r}" for hit in PROSE.finditer(text) if not is_allowed(hit[0], path)]
    return sorted(set(found))


def test_files_are_short():
    lines = {relative(path): path.read_text().count("\n") for path in ALL}
    assert {path: n for path, n in lines.items() if n > MAX_LINES} == {}


@pytest.mark.parametrize("tree", TREES)
def test_public_class_names_are_unique(tree):
    defined = defaultdict(list)
    for path in sources(tree):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(f"{relative(path)}:{node.lineno}")
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


@pytest.mark.parametrize("path", ALL, ids=relative)
def test_names_and_prose_use_plain_words(path):
    assert findings(path) == []
