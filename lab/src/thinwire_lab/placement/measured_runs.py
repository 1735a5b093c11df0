"""Runs measured on a host, and their document: the load harness writes it and calibration reads it.

A document is `{"kind": "edge runs", "version": 1, "machine", "date", "how", "runs": [...]}`. A run has its parameters
(host, arrivals, seconds, topics with rate and interval) and its results (messages; p50, p90 and p99 from the scheduled
times of sending; wall time and processor time of a message). All times are in seconds. A run that was disturbed by
other load is marked, and readers omit it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Host, TopicLoad
from thinwire_lab.placement.queue_simulator import Arrivals

KIND = "edge runs"
VERSION = 1
MAX_RUNS = 100_000
ARRIVALS = ("periodic", "poisson")


@dataclass(frozen=True)
class TopicResult:
    """Result of one topic of a run.

    publishers, subscribers: their numbers
    messages: counted messages, without those of the warm-up
    wall, cpu: mean wall time and processor time of a message; cpu is 0 if a timer emulated the work
    spread: standard deviation of the work, as a share of its mean
    """

    topic: TopicLoad
    messages: int
    p50: float
    p90: float
    p99: float
    wall: float
    cpu: float = 0.0
    spread: float = 0.0
    publishers: int = 1
    subscribers: int = 1


@dataclass(frozen=True)
class MeasuredRun:
    """A measured run of topics that shared a host.

    host: name and cores as configured; calibration finds its speed and contention
    arrivals: schedule of the messages, fixed before the run
    warm_up: seconds at the start whose messages were not counted
    burning: whether work used a processor; otherwise a timer held the worker, on virtual cores
    disturbed: other load during the run; empty if there was none
    """

    host: Host
    results: tuple[TopicResult, ...]
    arrivals: Arrivals
    seconds: float
    warm_up: float
    burning: bool = True
    disturbed: str = ""

    @property
    def topics(self) -> tuple[TopicLoad, ...]:
        """The topics on the host."""
        return tuple(result.topic for result in self.results)

    @property
    def configuration(self) -> tuple[Any, ...]:
        """The parameters that repeats of a run share."""
        loads = sorted((topic.rate, topic.interval) for topic in self.topics)
        return (self.host.name, self.host.cores, self.arrivals, *loads)


def runs_document(runs: Sequence[MeasuredRun], *, machine: str, date: str, how: str) -> dict[str, Any]:
    """Return the document of runs with machine and date."""
    about = {"kind": KIND, "version": VERSION, "machine": machine, "date": date, "how": how}
    return {**about, "runs": [_plain(run) for run in runs]}


def runs_of(document: Any) -> list[MeasuredRun]:
    """Return the runs of a document. Errors name the field."""
    if not isinstance(document, Mapping) or document.get("kind") != KIND or document.get("version") != VERSION:
        raise ConfigError(f"not a document of {KIND}", field="kind", wanted=KIND, version=VERSION)
    entries = document.get("runs")
    if not isinstance(entries, list) or len(entries) > MAX_RUNS:
        raise ConfigError("runs are a list", field="runs", limit=MAX_RUNS)
    return [_run(entry, f"runs[{place}]") for place, entry in enumerate(entries)]


def _plain(run: MeasuredRun) -> dict[str, Any]:
    document = asdict(run)
    topics = [{**result.pop("topic"), **result} for result in document.pop("results")]
    return {**document, "host": {"name": run.host.name, "cores": run.host.cores}, "topics": topics}


def _run(entry: Any, where: str) -> MeasuredRun:
    known = _known(entry, where, {"host", "topics", *(f.name for f in fields(MeasuredRun))} - {"results"})
    host = _known(known.get("host"), f"{where}.host", {"name", "cores"})
    topics = known.get("topics")
    if not isinstance(topics, list) or not topics:
        raise ConfigError("a run has topics", field=f"{where}.topics")
    if known.get("arrivals") not in ARRIVALS:
        raise ConfigError("unknown arrivals", field=f"{where}.arrivals", choose_from=list(ARRIVALS))
    results = tuple(_result(entry, f"{where}.topics[{index}]") for index, entry in enumerate(topics))
    return MeasuredRun(
        Host(str(host.get("name")), cores=host.get("cores", 0)),
        results,
        cast(Arrivals, known["arrivals"]),
        _number(known, "seconds", where),
        _number(known, "warm_up", where, 0.0),
        bool(known.get("burning", True)),
        str(known.get("disturbed", "")),
    )


def _result(entry: Any, where: str) -> TopicResult:
    own = [field.name for field in fields(TopicLoad)]
    known = _known(entry, where, {*own, *(field.name for field in fields(TopicResult))} - {"topic"})
    topic = TopicLoad(
        str(known.get("name", "")), **{name: _number(known, name, where) for name in own if name != "name"}
    )
    counts = {name: int(_number(known, name, where, 1.0)) for name in ("messages", "publishers", "subscribers")}
    times = {name: _number(known, name, where) for name in ("p50", "p90", "p99", "wall")}
    rest = {name: _number(known, name, where, 0.0) for name in ("cpu", "spread")}
    if min(times["p50"], times["p90"]) <= 0:
        raise ConfigError("a latency is above 0", field=f"{where}.p90", p50=times["p50"], p90=times["p90"])
    return TopicResult(topic, **counts, **times, **rest)  # type: ignore[arg-type]


def _known(entry: Any, where: str, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise ConfigError("a table of fields", field=where)
    for name in entry:
        if name not in names:
            raise ConfigError("unknown field", field=f"{where}.{name}", choose_from=sorted(names))
    return entry


def _number(entry: Mapping[str, Any], name: str, where: str, otherwise: float | None = None) -> float:
    value = entry.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ConfigError("a number of at least 0", field=f"{where}.{name}", value=value)
    return float(value)
