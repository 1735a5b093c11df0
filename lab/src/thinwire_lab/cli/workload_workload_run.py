"""`thinwire workload run SCENARIO`: a scenario on a live broker, with latencies from the intended instants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinwire.brokers.broker_url import read_url
from thinwire.cli.connection_options import NOBODY, Identity, identified
from thinwire.cli.connection_options_live import DEFAULT_URL, Access, UrlOption
from thinwire.cli.output import JsonOption, Output
from thinwire.cli.terminal import run
from thinwire.errors import ScenarioError
from thinwire_lab.workload.scenarios import read_scenario
from thinwire_lab.workload.scenarios.scenario_reading import MAX_LENGTH

if TYPE_CHECKING:
    from thinwire_lab.workload.scenarios.scenario_outcome import AudienceOutcome

ScenarioArgument = Annotated[
    Path, typer.Argument(metavar="SCENARIO", help="A TOML file.", exists=True, dir_okay=False, readable=True)
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", metavar="FILE", help="Append rows to this ledger.")]

_TOPICS = ("topic", "publishers", "events", "frames", "suppressed", "frame bytes", "late p99 ms", "late max ms")
_AUDIENCES = ("topic", "asked", "subscribers", "on channels", "events", "virtual", "frame bytes", "missed")
_LATENCIES = ("p50 ms", "p90 ms", "p99 ms", "max ms")


@identified
def run_verb(
    scenario: ScenarioArgument,
    to: UrlOption = DEFAULT_URL,
    ledger: LedgerOption = None,
    json: JsonOption = False,
    who: Identity = NOBODY,
) -> None:
    """Publish and subscribe as a scenario says, and tell how many events came, and how late.

    Events are due by the clock, whatever has become of those before;
    latency counts from when they were due.

    \b
    thinwire workload run morning.toml --to nats://127.0.0.1:4222 --ledger runs.jsonl
    thinwire workload run morning.toml --to embedded://
    """
    from thinwire.analysis.ledger_files import append
    from thinwire_lab.workload.scenarios.scenario_run_running import run_scenario

    told = read_scenario(_text_of(scenario))
    access = Access(to, who)
    outcome = run(run_scenario(told, access.bus, shared=read_url(to).scheme == "embedded"))
    output = Output(json)
    topics = [
        (
            t.topic,
            t.publishers,
            t.events,
            t.frames,
            t.suppressed_events,
            t.frame_bytes,
            _ms(t.late_p99),
            _ms(t.late_max),
        )
        for t in outcome.topics
    ]
    audiences = [
        (a.topic, a.asked, a.subscribers, a.on_channels, a.events, a.virtual, a.frame_bytes, a.missed, *_spread(a))
        for a in outcome.audiences
    ]
    output.table("published", _TOPICS, topics)
    output.table("handed out", (*_AUDIENCES, *_LATENCIES), audiences)
    output.note(f"{outcome.scenario}: {outcome.seconds:.1f} s, seed {outcome.seed}")
    if ledger is not None:
        append(ledger, outcome.rows)
    shown = {"scenario": outcome.scenario, "seed": outcome.seed, "seconds": outcome.seconds, "to": access.shown}
    output.document({**shown, "topics": list(outcome.topics), "audiences": list(outcome.audiences)})


def _text_of(path: Path) -> str:
    if path.stat().st_size > MAX_LENGTH:
        raise ScenarioError("the file is above the limit", file=str(path), limit=MAX_LENGTH)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError("not a text in UTF-8", file=str(path)) from None


def _spread(audience: AudienceOutcome) -> Iterator[float | None]:
    return map(_ms, (audience.p50, audience.p90, audience.p99, audience.most))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
