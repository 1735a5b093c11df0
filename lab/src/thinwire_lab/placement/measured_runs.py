"""Runs measured on a host, and the document that carries them: what a load harness writes and calibration reads.

A document is `{"kind": "edge runs", "version": 1, "machine", "date", "how", "runs": [...]}`. A run says what it was
meant to be (host, arrivals, seconds, topics with rate and interval) and what was met (messages, p50, p90 and p99 from
the instants of intended sending, work of a message by the wall and by the processor). All times are seconds as the
clock of the machine showed them. A run that was disturbed from outside says so and is kept: who reads leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from thinwire.errors import ConfigError
from thinwire.placement.hosts import Host, TopicLoad
from thinwire_lab.placement.queue_simulator import Arrivals, HostRun

KIND = "edge runs"
VERSION = 1
MAX_RUNS = 100_000
ARRIVALS = ("periodic", "poisson")


@dataclass(frozen=True)
class Met:
    """One topic of a run, and what its messages met.

    publishers, subscribers: how many there were of each
    messages: how many were counted, those of the warm-up left out
    wall, cpu: mean work of a message, by the wall and by the processor; cpu is 0 where work was emulated by a timer
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
    """Topics that shared a host, measured.

    cores, name of the host: as it was set up; its speed and contention are what calibration finds
    arrivals: of messages, all scheduled before the run begins
    warm_up: seconds at the start whose messages were not counted
    burning: did work burn a processor? Else a timer held the worker, on virtual cores
    disturbed: what disturbed it from outside; empty where nothing did
    """

    host: Host
    met: tuple[Met, ...]
    arrivals: Arrivals
    seconds: float
    warm_up: float
    burning: bool = True
    disturbed: str = ""

    @property
    def topics(self) -> tuple[TopicLoad, ...]:
        """What shared the host."""
        return tuple(one.topic for one in self.met)

    @property
    def run(self) -> HostRun:
        """The same as a sample to train with."""
        return HostRun(self.topics, self.host, tuple(one.p90 for one in self.met))

    @property
    def configuration(self) -> tuple[Any, ...]:
        """What repeats of one run have in common."""
        loads = sorted((topic.rate, topic.interval) for topic in self.topics)
        return (self.host.name, self.host.cores, self.arrivals, *loads)


def runs_document(runs: Sequence[MeasuredRun], *, machine: str, date: str, how: str) -> dict[str, Any]:
    """The runs with the machine and the day they were measured."""
    about = {"kind": KIND, "version": VERSION, "machine": machine, "date": date, "how": how}
    return {**about, "runs": [_plain(run) for run in runs]}


def runs_of(document: Any) -> list[MeasuredRun]:
    """The runs of a document; the complaint names the field."""
    if not isinstance(document, Mapping) or document.get("kind") != KIND or document.get("version") != VERSION:
        raise ConfigError(f"not a document of {KIND}", field="kind", wanted=KIND, version=VERSION)
    entries = document.get("runs")
    if not isinstance(entries, list) or len(entries) > MAX_RUNS:
        raise ConfigError("runs are a list", field="runs", limit=MAX_RUNS)
    return [_run(entry, f"runs[{place}]") for place, entry in enumerate(entries)]


def _plain(run: MeasuredRun) -> dict[str, Any]:
    met = [{**asdict(one.topic), **{k: v for k, v in asdict(one).items() if k != "topic"}} for one in run.met]
    rest = {"arrivals": run.arrivals, "seconds": run.seconds, "warm_up": run.warm_up}
    told = {"burning": run.burning, "disturbed": run.disturbed}
    return {"host": {"name": run.host.name, "cores": run.host.cores}, **rest, **told, "topics": met}


def _run(entry: Any, where: str) -> MeasuredRun:
    known = _known(entry, where, {"host", "topics", *(f.name for f in fields(MeasuredRun))} - {"met"})
    host = _known(known.get("host"), f"{where}.host", {"name", "cores"})
    topics = known.get("topics")
    if not isinstance(topics, list) or not topics:
        raise ConfigError("a run has topics", field=f"{where}.topics")
    if known.get("arrivals") not in ARRIVALS:
        raise ConfigError("no such arrivals", field=f"{where}.arrivals", choose_from=list(ARRIVALS))
    met = tuple(_met(one, f"{where}.topics[{place}]") for place, one in enumerate(topics))
    return MeasuredRun(
        Host(str(host.get("name")), cores=host.get("cores", 0)),
        met,
        cast(Arrivals, known["arrivals"]),
        _number(known, "seconds", where),
        _number(known, "warm_up", where, 0.0),
        bool(known.get("burning", True)),
        str(known.get("disturbed", "")),
    )


def _met(entry: Any, where: str) -> Met:
    own = [field.name for field in fields(TopicLoad)]
    known = _known(entry, where, {*own, *(field.name for field in fields(Met))} - {"topic"})
    topic = TopicLoad(
        str(known.get("name", "")), **{name: _number(known, name, where) for name in own if name != "name"}
    )
    counts = {name: int(_number(known, name, where, 1.0)) for name in ("messages", "publishers", "subscribers")}
    times = {name: _number(known, name, where) for name in ("p50", "p90", "p99", "wall")}
    rest = {name: _number(known, name, where, 0.0) for name in ("cpu", "spread")}
    if min(times["p50"], times["p90"]) <= 0:
        raise ConfigError("a latency is above 0", field=f"{where}.p90", p50=times["p50"], p90=times["p90"])
    return Met(topic, **counts, **times, **rest)  # type: ignore[arg-type]


def _known(entry: Any, where: str, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise ConfigError("a table of fields", field=where)
    for name in entry:
        if name not in names:
            raise ConfigError("no such field", field=f"{where}.{name}", choose_from=sorted(names))
    return entry


def _number(entry: Mapping[str, Any], name: str, where: str, otherwise: float | None = None) -> float:
    value = entry.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ConfigError("a number from 0 on", field=f"{where}.{name}", value=value)
    return float(value)
