"""What an analysis found, for people and for programs, and the files it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinwire.cli.output import Output

if TYPE_CHECKING:
    from thinwire.analysis import Judged, Report, TopicReport

COLUMNS = ("", "strategy", "wire saved", "of batches", "of deflated", "frames saved", "error", "publish", "receive")


def write(made: Report, report: Path | None, plan: Path | None) -> None:
    """Write the page and the plan, where somebody wants them."""
    from thinwire.analysis import plan_of, render
    from thinwire.topics.topic_plan import write_plan

    if report is not None:
        _put(report, render(made))
    if plan is not None:
        _put(plan, write_plan(plan_of(made)))


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)  # a reader sees all of it or nothing


def show(output: Output, found: TopicReport, written: dict[str, Any]) -> None:
    """Print the table of strategies, the front marked, and the plan in a sentence."""
    front = {one.name for one in found.front}
    ordered = sorted(found.judged, key=lambda one: -one.link_saving)
    rows = [(_mark(one, found, front), *_cells(one)) for one in ordered]
    output.table(f"{found.topic}: {found.chosen.outcome.events:,} events held out", COLUMNS, rows)
    output.note("* no other is better in everything   > the plan")
    if found.rejected:
        first = found.rejects[0]
        output.note(f"{found.rejected:,} lines are no events, the first {first.file}:{first.line}: {first.reason}")
    output.note(found.sentence)
    for what, path in written.items():
        if path is not None and (what != "rejects" or found.rejected):
            output.note(f"{what}: {path}")
    strategies = [{**_document(one), "front": one.name in front, "chosen": one is found.chosen} for one in ordered]
    places = {what: str(path) for what, path in written.items() if path is not None}
    output.document({**_facts(found), "strategies": strategies, **places})


def _facts(found: TopicReport) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "sentence": found.sentence,
        "learnt_from": found.learned.events,
        "held_out": found.chosen.outcome.events,
        "rejected": found.rejected,
        "rejects": [one._asdict() for one in found.rejects],
    }


def _mark(one: Judged, found: TopicReport, front: set[str]) -> str:
    return (">" if one is found.chosen else "") + ("*" if one.name in front else "")


def _cells(one: Judged) -> tuple[str, ...]:
    outcome = one.outcome
    savings = (one.link_saving, one.batched_saving, one.packed_saving, one.frame_saving)
    micros = (outcome.publish_cpu, outcome.receive_cpu)
    broken = "" if outcome.kept else " (promise broken)"
    return (
        one.name + broken,
        *(f"{100 * share:.1f} %" for share in savings),
        f"{100 * one.error:.3g} %",
        *("-" if seconds is None else f"{1e6 * seconds:.0f} us" for seconds in micros),
    )


def _document(one: Judged) -> dict[str, Any]:
    outcome, total = one.outcome, one.outcome.total
    return {
        "strategy": one.name,
        "link_saving": one.link_saving,
        "batched_saving": one.batched_saving,
        "packed_saving": one.packed_saving,
        "frame_saving": one.frame_saving,
        "error": one.error,
        "kept": outcome.kept,
        "frame_bytes": total.frame,
        "link_bytes": total.link,
        "messages": total.messages,
        "publish_cpu": outcome.publish_cpu,
        "receive_cpu": outcome.receive_cpu,
    }
