"""Figures of the thesis on limited links, and batches with deflate instead of dictionaries.

`table_linger` measures how many messages must be batched until deflate equals a dictionary, over a real broker. The
figures on limited links are simulated. Their messages are the tweets of the thesis with the published sizes and
processor times (`link_parties.TWEETS`): the link is reproduced, not the codec.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from thinwire.analysis.analysis_run import Cell, CellRunner
from thinwire.dictionaries.policies.policy_catalogue import FAST
from thinwire_lab.live.linger_batches import MESSAGES, QUICK_BATCHES, QUICK_MESSAGES, find_break_even, run_methods
from thinwire_lab.reproduce.dictionaries import thesis_numbers as published
from thinwire_lab.reproduce.dictionaries import thesis_sheet as plots
from thinwire_lab.reproduce.dictionaries.byte_account import BATCHES
from thinwire_lab.reproduce.dictionaries.link_parties import TWEETS
from thinwire_lab.reproduce.dictionaries.link_simulation import (
    DELAYS,
    PARTIES,
    RATES,
    TWEET_LOADS,
    compare,
    delay_cells,
    thesis_cells,
)
from thinwire_lab.reproduce.dictionaries.policy_cells import (
    Points,
    crossing_batch,
    format_batch,
    interpolate,
    messages_of,
    run_cell,
)
from thinwire_lab.reproduce.dictionaries.thesis_numbers import SpeedUps
from thinwire_lab.reproduce.dictionaries.thesis_sheet import Sheet, ThesisScale, run_cells

MEASURED_LIKE = ("DEBS json", "DEBS csv", "Gdax json")
"""streams of the thesis; one stream similar to each is measured"""
COLUMNS = ("stream", "method", "linger ms", "joined", "bytes per message", "of it dictionary", "computed", "at sockets",
           "mean ms", "p99 ms")  # fmt: skip
COUNTED = (
    "bytes per message: broker messages with headers, and dictionaries, on one hop; at sockets: both ends and"
    " directions, with the overhead of the broker",
    "deflate: all messages of a linger as one; dictionary: each message a frame, frames of a linger in one message",
    "every message arrived unchanged and in order; ms from publishing to arrival",
)


def table_linger(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    rows: list[tuple[Any, ...]] = []
    notes: list[str] = []
    for stream in _streams(scale):
        deflated, with_dictionary = _computed(scale, run, stream)
        measured, verdict = _measured(scale, stream, deflated, with_dictionary)
        rows += measured
        notes.append(f"{stream}: {verdict}; computed, at {format_batch(crossing_batch(deflated, with_dictionary))}")
    title = "table linger: bytes per message by messages joined in a linger, at a real broker"
    return Sheet(title, COLUMNS, rows, (*notes, _thesis(), *COUNTED))


def _streams(scale: ThesisScale) -> list[str]:
    wanted = MEASURED_LIKE[:1] if scale.quick else MEASURED_LIKE
    return [stream for like in wanted for stream in scale.streams([like])[:1]]


def _length(scale: ThesisScale) -> int:
    return min(scale.most, QUICK_MESSAGES if scale.quick else MESSAGES)


def _computed(scale: ThesisScale, run: CellRunner, stream: str) -> tuple[Points, float]:
    """Return bytes per message without a broker: of deflate by batch, and of our policy's dictionaries."""
    about = {"stream": stream, "data": scale.data, "messages": _length(scale), "publishers": [1]}
    cells: list[Cell] = [{**about, "policy": "deflate", "batch": batch} for batch in BATCHES]
    cells.append({**about, "policy": "ours", "settings": {"budget": FAST}})  # as in the running system
    each = [
        row["mean packed"] + row["dictionary bytes"] / row["messages"]
        for figures in run_cells(run_cell, cells, run)
        for row in figures["rows"]
    ]
    return list(zip(map(float, BATCHES), each, strict=False)), each[-1]


def _measured(
    scale: ThesisScale, stream: str, deflated: Points, with_dictionary: float
) -> tuple[list[tuple[Any, ...]], str]:
    messages = list(messages_of(stream, scale.data, _length(scale)))
    found = asyncio.run(run_methods(messages, QUICK_BATCHES if scale.quick else BATCHES))
    rows = [
        (stream, c.method, 1000 * c.linger, c.joined, c.each, c.dictionaries / c.messages,
         with_dictionary if c.method == "dictionary" else interpolate(deflated, c.joined), c.on_sockets, c.delay,
         c.slowest)
        for c in found
    ]  # fmt: skip
    return rows, str(find_break_even(found))


def _thesis() -> str:
    left = [(float(batch), 100 - means["deflate"][0]) for batch, means in published.MEANS.items()]
    crossing = format_batch(crossing_batch(left, 100 - published.MEANS[1]["predict"][0]))
    return f"thesis: at about 20; the means of its streams cross at {crossing} (Predict without batches, 1:1)"


LINK_MESSAGES, LINK_FEW = 400, 55
"""messages of all publishers; the thesis sends 20,000, but all messages behave alike"""
NO_DISK = "with high bandwidth the thesis has 1.1, because smaller messages are stored faster; disks are not modelled"
WAITING = (
    "publishers wait for each acknowledgement; each subscriber has its own link, so their number has little effect"
)
PHONE = "down=100kbit,delay=235ms,jitter=90ms"
"""a phone on 2G: the thesis reports round trips of 290 to 650 ms, and no bandwidth"""
AHEAD = 64
"""unacknowledged messages of the publisher"""
LOADED = 0.9
"""share of the phone's bandwidth that plain messages use"""
SENT, DICTIONARY = 5000, 3078
"""messages of figure 4.3.6, and bytes of its dictionary: one mean message"""


def figure_5_5_3(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _faster(scale, run, out, "5.5.3", "receiving", ["1mbit"])


def figure_5_5_4(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _faster(scale, run, out, "5.5.4", "receiving", ["4mbit"])


def figure_c_1(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _faster(scale, run, out, "C.1", "receiving", RATES[4::4] if scale.quick else RATES)


def figure_c_2(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    return _faster(scale, run, out, "C.2", "publishing", RATES[2::4] if scale.quick else RATES)


def figure_delays(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    """Bandwidth by delay and jitter, which are fixed in the thesis; one publisher and one subscriber."""
    rates, delays = (RATES[::4], DELAYS[::2]) if scale.quick else (RATES, DELAYS)
    cells = delay_cells(rates, delays, LINK_FEW)
    found = run(compare, cells, _weight)
    columns = ("limits", "receiving", "publishing", "delivered", "plain ms", "dictionary ms")
    table = [(cell["limits"], *_ratios(row), *_halves(row)) for cell, row in zip(cells, found, strict=True)]
    series: dict[str, plots.Points] = {}
    for delay in delays:
        own = [row for cell, row in zip(cells, found, strict=True) if cell["limits"].endswith(f"delay={delay}")]
        series[delay] = ([_kilobits(rate) for rate in rates], [float(row["receiving_dictionary"]) for row in own])
    title = "Speed-up with a dictionary, by one-way delay"
    pictures = plots.lines(out / "figure-delays", title, series, ("kbit/s", "speed-up"), log=True)
    return Sheet("figure delays: bandwidth by delay and jitter", columns, table, (WAITING,), pictures)


def figure_4_3_5(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    """Latency on a phone whose link is almost saturated by plain messages."""
    cell = _phone(LINK_FEW if scale.quick else LINK_MESSAGES, pace=TWEETS["plain"].mean / (LOADED * 12_500))
    (row,) = run(compare, [cell], _weight)
    methods = tuple(TWEETS)
    table = [(p, *(1000 * float(row[f"{method}.delivered_{p}"]) for method in methods)) for p in ("p50", "p99")]
    series = {method: [1000 * float(row[f"{method}.delivered_{p}"]) for p in ("p50", "p99")] for method in methods}
    pictures = plots.bars(out / "figure-4.3.5", "Latency on 2G (figure 4.3.5)", ["p50", "p99"], series, "ms")
    notes = ("the thesis shows a curve without numbers: lower latency, mainly in the high percentiles", PHONE)
    return Sheet("figure 4.3.5: latency on 2G, ms", ("percentile", *methods), table, notes, pictures)


def figure_4_3_6(scale: ThesisScale, run: CellRunner, out: Path) -> Sheet:
    """Time until a phone has received 5,000 messages, and the dictionary before them."""
    sent = LINK_FEW if scale.quick else SENT
    messages, alone = run(compare, [_phone(sent), _phone(1, loads={"plain": [DICTIONARY, 0.0, 0.0]})], _weight)
    dictionary = float(alone["plain.receiving"])
    times = {f"messages, {method}": float(messages[f"{method}.receiving"]) for method in TWEETS}
    times |= {"the dictionary alone": dictionary, "both": times["messages, dictionary"] + dictionary}
    saved = 100 * (1 - times["both"] / times["messages, plain"])
    series = {"seconds": list(times.values())}
    title = f"{sent:,} messages to a phone on 2G (figure 4.3.6)"
    pictures = plots.bars(out / "figure-4.3.6", title, list(times), series, "seconds")
    notes = (f"thesis: about 40 % less time including the dictionary; here {saved:.0f} %", PHONE)
    return Sheet(
        f"figure 4.3.6: {sent:,} messages on 2G", ("transfer", "seconds"), list(times.items()), notes, pictures
    )


def _faster(scale: ThesisScale, run: CellRunner, out: Path, number: str, role: str, rates: Sequence[str]) -> Sheet:
    """Speed-ups by publishers and subscribers, one map per bandwidth, beside the values of the thesis."""
    parties, messages = (PARTIES[::4], LINK_FEW) if scale.quick else (PARTIES, LINK_MESSAGES)
    cells = thesis_cells(rates, parties, messages)
    found = run(compare, cells, _weight)
    ours: dict[str, SpeedUps] = {rate: {} for rate in rates}
    table = []
    for cell, row in zip(cells, found, strict=True):
        rate, ends = _rate(cell), (cell["publishers"], cell["subscribers"])
        ours[rate][ends] = float(row[f"{role}_dictionary"])
        theirs = published.SPEED_UPS[role].get(rate, {}).get(ends)
        table.append((rate, *ends, theirs, ours[rate][ends], row[f"{role}_deflate"]))
    columns = ("bandwidth", "publishers", "subscribers", "dictionary, thesis", "dictionary, ours", "deflate, ours")
    notes = (_beside([row[3:5] for row in table]), WAITING, NO_DISK)
    title = f"figure {number}: speed-up of {role} over plain messages"
    return Sheet(title, columns, table, notes, _maps(out, number, role, ours))


def _maps(out: Path, number: str, role: str, ours: Mapping[str, SpeedUps]) -> list[Path]:
    pictures: list[Path] = []
    for rate, cells in ours.items():
        title = f"Speed-up of {role}, {rate}, 50 ms one-way delay (figure {number})"
        by_axes = {(float(s), float(p)): value for (p, s), value in cells.items()}
        pictures += plots.heat(out / f"figure-{number}-{rate}", title, by_axes, ("subscribers", "publishers"))
    return pictures


def _beside(pairs: Sequence[tuple[Any, ...]]) -> str:
    """Describe the deviation of our values from the thesis.

    >>> _beside([(2.0, 3.0), (None, 1.0), (1.0, 1.1)])
    'half of our values are within 30 % of the thesis (2 values)'
    """
    deviations = [abs(ours / theirs - 1) for theirs, ours in pairs if theirs is not None]
    if not deviations:
        return "the values of the thesis cannot be read at these bandwidths"
    deviation = 100 * median(deviations)
    return f"half of our values are within {deviation:.0f} % of the thesis ({len(deviations)} values)"


def _phone(messages: int, pace: float = 0.0, loads: Mapping[str, Sequence[float]] | None = None) -> Cell:
    """Return a cell with one publisher next to the broker and one subscriber on 2G; the publisher does not wait."""
    return {"publishers": 1, "subscribers": 1, "limits": PHONE, "loads": loads or TWEET_LOADS, "messages": messages,
            "window": AHEAD, "pace": pace}  # fmt: skip


def _ratios(row: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(float(row[f"{name}_dictionary"]) for name in ("receiving", "publishing", "delivered"))


def _halves(row: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(1000 * float(row[f"{method}.delivered_p50"]) for method in ("plain", "dictionary"))


def _rate(cell: Cell) -> str:
    return str(cell["limits"]).partition(",")[0].removeprefix("bandwidth=")


def _kilobits(rate: str) -> float:
    """
    >>> _kilobits("64kbit"), _kilobits("2mbit")
    (64.0, 2000.0)
    """
    return float(rate[:-4]) * (1000 if rate.endswith("mbit") else 1)


def _weight(cell: Cell) -> float:
    return float(cell["messages"] * (cell["publishers"] + 3 * cell["subscribers"]))
