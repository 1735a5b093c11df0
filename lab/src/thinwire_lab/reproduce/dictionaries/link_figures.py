"""How many messages must be joined until deflate does as well as a dictionary: over a real broker, and computed."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinwire.analysis.analysis_cells import Cell, Run
from thinwire.dictionaries.byte_account import BATCHES
from thinwire.dictionaries.policies.policy_catalogue import FAST
from thinwire_lab.live.linger_batches import FEW, MESSAGES, QUICK_BATCHES, balance, courses
from thinwire_lab.reproduce.dictionaries import thesis_numbers_dictionaries_published as published
from thinwire_lab.reproduce.dictionaries.policy_cells import Points, between, equal_at, shown
from thinwire_lab.reproduce.dictionaries.policy_cells_cells import run_cell
from thinwire_lab.reproduce.dictionaries.policy_cells_opening import messages_of
from thinwire_lab.reproduce.dictionaries.thesis_sheet_dictionaries_sheet import Scale, Sheet, swept

LIKE = ("DEBS json", "DEBS csv", "Gdax json")
"""the streams of the thesis for which one is measured, in full"""
COLUMNS = ("stream", "way", "linger ms", "joined", "bytes a message", "dictionary in it", "computed", "on sockets",
           "mean ms", "p99 ms")  # fmt: skip
COUNTED = (
    "bytes a message: those of the broker's messages, headers included, and of dictionaries, on one hop; on sockets:"
    " both ends and directions, with what the broker adds",
    "deflate: all messages of a linger as one; dictionary: each message a frame, frames of a linger joined",
    "every message came as it was published, in order; ms from publishing until it is there",
)


def table_linger(scale: Scale, run: Run, out: Path) -> Sheet:
    rows: list[tuple[Any, ...]] = []
    notes: list[str] = []
    for stream in _streams(scale):
        deflated, with_one = _computed(scale, run, stream)
        verdict = "not measured through the running system: that needs the extra nats"
        if find_spec("nats") is not None:
            more, verdict = _measured(scale, stream, deflated, with_one)
            rows += more
        notes.append(f"{stream}: {verdict}; computed, at {shown(equal_at(deflated, with_one))}")
    title = "table linger: bytes a message by messages joined in a linger, at a real broker"
    return Sheet(title, COLUMNS, rows, (*notes, _thesis(), *COUNTED))


def _streams(scale: Scale) -> list[str]:
    wanted = LIKE[:1] if scale.quick else LIKE
    return [stream for like in wanted for stream in scale.streams([like])[:1]]


def _length(scale: Scale) -> int:
    return min(scale.most, FEW if scale.quick else MESSAGES)


def _computed(scale: Scale, run: Run, stream: str) -> tuple[Points, float]:
    """Bytes a message without a broker: of deflate by batch, and of our policy's dictionaries."""
    about = {"stream": stream, "data": scale.data, "messages": _length(scale), "publishers": [1]}
    cells: list[Cell] = [{**about, "policy": "deflate", "batch": batch} for batch in BATCHES]
    cells.append({**about, "policy": "ours", "settings": {"budget": FAST}})  # as in the running system
    each = [
        row["mean packed"] + row["dictionary bytes"] / row["messages"]
        for figures in swept(run_cell, cells, run)
        for row in figures["rows"]
    ]
    return list(zip(map(float, BATCHES), each, strict=False)), each[-1]


def _measured(scale: Scale, stream: str, deflated: Points, with_one: float) -> tuple[list[tuple[Any, ...]], str]:
    messages = list(messages_of(stream, scale.data, _length(scale)))
    found = asyncio.run(courses(messages, QUICK_BATCHES if scale.quick else BATCHES))
    rows = [
        (stream, c.way, 1000 * c.linger, c.joined, c.each, c.dictionaries / c.messages,
         with_one if c.way == "dictionary" else between(deflated, c.joined), c.on_sockets, c.delay, c.slowest)
        for c in found
    ]  # fmt: skip
    return rows, str(balance(found))


def _thesis() -> str:
    left = [(float(batch), 100 - means["deflate"][0]) for batch, means in published.MEANS.items()]
    crossing = shown(equal_at(left, 100 - published.MEANS[1]["predict"][0]))
    return f"thesis: at about 20; the means of its streams cross at {crossing} (Predict without batches, 1:1)"
