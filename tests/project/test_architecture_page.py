"""The architecture page agrees with the code: layers, files, classes, methods and the order of calls."""

from __future__ import annotations

import ast
import asyncio
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from event_path import Call, Tracer, schema_of, trace_paths

import thinwire as tw
from thinwire.brokers.recording import RecordingWriter
from thinwire.topics.recorder import Recorder

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "thinwire"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
LAYERS = next(
    contract["layers"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if contract["id"] == "layers"
)
PROTOCOL = "brokers/protocol.py"
PATHS = ("publish", "subscribe", "resume", "translate", "Spark row")


def layer_lines() -> list[list[str]]:
    """Packages of each layer of the page; names of reserved packages end with `*`."""
    drawing = re.search(r"## Packages and layers.*?```\n(.*?)```", PAGE, re.DOTALL)[1]
    known = {name for layer in LAYERS for name in re.findall(r"\w+", layer)}
    lines = []
    for line in drawing.splitlines():
        names = line.split()
        count = next((n for n, name in enumerate(names) if name.rstrip("*") not in known), len(names))
        lines.append(names[:count])
    return lines


def call_path(name: str) -> list[tuple[str, str]]:
    """File and function of each step of a path."""
    section = re.search(rf"^\*\*{name}\*\*.*?\n\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE)[1]
    steps = re.findall(r"^\d+\. `([\w/]+\.py): ([\w.]+)`$", section, re.MULTILINE)
    assert len(steps) == len(section.splitlines())
    return steps


def core_classes() -> list[tuple[str, str]]:
    return re.findall(r"^\| `(\w+)` \| `([\w/]+\.py)` \|", PAGE, re.MULTILINE)


@cache
def defined(file: str) -> set[str]:
    """Qualified names of the classes, functions and methods of a file."""
    names = set()
    for node in ast.parse((PACKAGE / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


def missing_steps(path: list[tuple[str, str]], calls: list[Call], *, cycle: bool = False) -> list[tuple[str, str]]:
    """The steps that do not occur in the calls in this order.

    cycle: the calls repeat; the comparison begins at the first step of the path.
    """
    if cycle:
        start = next((n for n, call in enumerate(calls) if is_step(call, path[0])), 0)
        calls = calls[start:] + calls[:start]
    remaining = list(path)
    for call in calls:
        if remaining and is_step(call, remaining[0]):
            del remaining[0]
    return remaining


def is_step(call: Call, step: tuple[str, str]) -> bool:
    """Report whether a call is a step; a step of the broker protocol is a method of some broker."""
    file, function = step
    if file == PROTOCOL:
        return call.package == "brokers" and call.function.split(".")[1:] == function.split(".")[1:]
    return (call.file, call.function) == step


@pytest.fixture(scope="module")
def traces() -> dict[str, list[Call]]:
    return asyncio.run(trace_paths(codec=()))


def test_layers_are_those_of_the_contract():
    on_page = [{name.rstrip("*") for name in line} for line in layer_lines()]
    assert on_page == [set(re.findall(r"\w+", layer)) for layer in LAYERS if "__main__" not in layer]


def test_packages_without_a_star_exist():
    exists = {name: any(PACKAGE.glob(f"{name.rstrip('*')}*")) for line in layer_lines() for name in line}
    assert {name: not name.endswith("*") for name in exists} == exists


def test_named_files_exist():
    files = set(re.findall(r"`([\w/]+\.py)(?:: [\w.]+)?`", PAGE))
    assert [file for file in files if not (PACKAGE / file).exists() and not (ROOT / file).exists()] == []


def test_core_classes_are_in_their_files():
    assert len(core_classes()) > 30
    assert [(name, file) for name, file in core_classes() if name not in defined(file)] == []


@pytest.mark.parametrize("name", PATHS)
def test_steps_exist(name):
    path = call_path(name)
    assert 6 <= len(path) <= 10
    assert [step for step in path if step[1] not in defined(step[0])] == []


def test_names_in_the_picture_are_classes():
    picture = re.search(r"## The path of an event\n\n```\n(.*?)```", PAGE, re.DOTALL)[1]
    names = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", picture)) - {"Spark"}
    classes = {entry for file in PACKAGE.rglob("*.py") for entry in defined(file.relative_to(PACKAGE).as_posix())}
    assert names - classes == set()


def test_publish_calls_the_steps_in_order(traces):
    assert missing_steps(call_path("publish"), traces["publish"]) == []


def test_subscribe_calls_the_steps_in_order(traces):
    assert missing_steps(call_path("subscribe"), traces["log"], cycle=True) == []


def test_a_durable_subscription_resumes_in_the_steps():
    assert missing_steps(call_path("resume"), asyncio.run(resume())) == []


def test_translate_calls_the_steps_in_order(traces):
    translator = [call for call in traces["channel"] if call.task != "coarse"]
    assert missing_steps(call_path("translate"), translator) == []


def test_a_spark_task_calls_the_steps_in_order(tmp_path):
    """A task of the data source reads a recording here, without a Spark session."""
    data_source = pytest.importorskip("thinwire.spark.source.data_source")
    asyncio.run(record(tmp_path / "recording"))
    source = data_source.ThinwireDataSource({"path": str(tmp_path / "recording"), "subscribe": "event.path"})
    reader = source.reader(source.schema())
    (part,) = reader.partitions()
    with Tracer(codec=()) as tracer:
        rows = sum(batch.num_rows for batch in reader.read(part))
    assert rows == 3
    assert missing_steps(call_path("Spark row"), tracer.calls) == []


async def resume() -> list[Call]:
    """The calls of a durable subscription that opens for the second time and receives an event."""
    schema = schema_of("event.path")
    async with tw.connect("memory://architecture-resume") as bus:
        await bus.register(schema)
        async with bus.publisher(schema.name, name="p1") as out:
            async with bus.subscribe(schema.name, durable="desk") as subscription:
                for n in range(2):
                    await out.publish({"room": "11.1", "t": 20.0 + n})
                    await anext(subscription)
            await out.publish({"room": "11.1", "t": 80.0})
            await out.flush()
            with Tracer(codec=()) as tracer:
                async with bus.subscribe(schema.name, durable="desk") as subscription:
                    await anext(subscription)
    return tracer.calls


async def record(folder: Path) -> None:
    """Record a topic with three events."""
    schema = schema_of("event.path")
    async with tw.connect("memory://architecture-page") as bus:
        await bus.register(schema)
        async with bus.subscribe(schema.name), bus.publisher(schema.name, name="p1") as out:
            for n in range(3):
                await out.publish({"room": "11.1", "t": 20.0 + n})
        with RecordingWriter(folder) as writer:
            recorder = Recorder(bus.broker, writer, [schema.name])
            await recorder.open()
            await recorder.copy(until_caught_up=True)
            await recorder.put_documents()
