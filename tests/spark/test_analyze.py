"""The analysis on Spark has the same figures as in one process, for all file formats."""

import csv
import gzip
import json
import pickle
from codecs import BOM_UTF8
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thinwire.analysis import EXACT, AnalysisRequest, Level, analyze_files, grid
from thinwire.analysis.analysis_run import AnalysisTask
from thinwire.analysis.work_folder import WorkFolder
from thinwire.errors import ConfigError, ThinwireError
from thinwire.spark.jobs.analyze import analyze
from thinwire_lab.streams.sensor_stream import sensor_batch, sensor_schema

EVENTS = sensor_batch(2_400, sources=4).to_pylist()
FEW = grid((EXACT, Level("1 %", 0.01)), (("compact", "auto"),), (0.005, 0.5))
REQUEST = AnalysisRequest("machines", FEW, time="time", dimensions=["machine"], chunk=500)


def lines(path: Path, events=EVENTS, *, spoilt=()) -> Path:
    texts = [json.dumps(event) for event in events]
    for index, text in sorted(spoilt, reverse=True):
        texts.insert(index, text)
    path.write_text("\n".join(texts) + "\n")
    return path


def figures(report):
    """Everything but processor times, which are measured."""
    judged = [replace(one.outcome, publish_cpu=None, receive_cpu=None) for one in report.strategies]
    return judged, list(report.baselines), list(report.properties), report.training, report.rejected, report.rejects


def test_spark_gives_the_results_of_one_process(spark, tmp_path):
    spoilt = [(3, "{"), (3, ""), (700, "[1]"), (1900, '{"time":"soon"}')]
    path = lines(tmp_path / "m.jsonl", spoilt=spoilt)
    path.write_bytes(BOM_UTF8 + path.read_bytes().replace(b"[1]", b"[\xff]"))
    alone = analyze_files([path], REQUEST)
    seen = []
    found = analyze(
        spark, [str(path)], REQUEST, rejects=str(tmp_path / "rejects"), progress=lambda *reported: seen.append(reported)
    )
    assert figures(found) == figures(alone)
    assert [one.line for one in found.rejects] == [5, 703, 1904]
    assert (found.rejects[1].reason, found.rejects[1].text) == ("not UTF-8 text", r"[\udcff]")
    assert "no time" in found.rejects[2].reason
    assert found.rejected == spark.read.json(str(tmp_path / "rejects")).count() == 3
    assert found.chosen.outcome.is_guarantee_met
    assert found.chosen.outcome.events == 1_200
    assert found.training.events == 1_200


@pytest.mark.slow
def test_all_file_formats_give_the_same_report(spark, tmp_path):
    some = EVENTS[:600]
    plain = lines(tmp_path / "m.jsonl", some)
    packed = tmp_path / "m.ndjson.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    table = tmp_path / "m.parquet"
    pq.write_table(pa.Table.from_pylist(some), table)
    separated = tmp_path / "m.csv"
    with separated.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(some[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(some)
    one = replace(REQUEST, strategies=FEW[:1])
    alone = analyze_files([plain], one).chosen.outcome.total.frame
    frames = {
        path.name: analyze(spark, [str(path)], one).chosen.outcome.total.frame for path in (packed, table, separated)
    }
    assert set(frames.values()) == {alone}, frames


def test_instants_of_tables_stay_instants(spark, tmp_path):
    path = tmp_path / "instants.parquet"
    rows = [{"at": datetime.fromtimestamp(1_700_000_000 + n, UTC), "room": "a", "t": n % 9 / 10} for n in range(60)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    request = AnalysisRequest("rooms", FEW[:1], time="at", dimensions=["room"])
    found = analyze(spark, [str(path)], request)
    assert found.training.schema["at"].form == "datetime"
    assert (found.chosen.outcome.events, found.chosen.outcome.is_guarantee_met) == (30, True)


@pytest.mark.slow
def test_events_out_of_order_are_put_in_order(spark, tmp_path):
    path = lines(tmp_path / "m.jsonl", EVENTS[::-1])
    halves = [lines(tmp_path / "1.jsonl", EVENTS[:900]), lines(tmp_path / "2.jsonl", EVENTS[900:])]
    one = replace(REQUEST, strategies=FEW[:1])
    complete = analyze(spark, [str(path)], one)
    parts = analyze(spark, list(map(str, halves)), one)
    assert complete.chosen.outcome.events == parts.chosen.outcome.events == 1_200
    assert complete.chosen.outcome.total.frame == pytest.approx(parts.chosen.outcome.total.frame, rel=0.01)


def test_chunks_make_little_difference(tmp_path):
    path = lines(tmp_path / "m.jsonl")
    complete, cut = (analyze_files([path], replace(REQUEST, chunk=chunk)) for chunk in (10_000, 300))
    for one, other in zip(complete.strategies, cut.strategies, strict=True):
        assert one.outcome.events == other.outcome.events
        assert other.outcome.is_guarantee_met
        assert other.link_saving == pytest.approx(one.link_saving, abs=0.01)
        assert other.frame_saving == pytest.approx(one.frame_saving, abs=0.01)


def test_events_without_a_time_use_the_rate(tmp_path):
    events = [{"room": "a", "heat": 20 + n % 5 / 10} for n in range(400)]
    path = lines(tmp_path / "rooms.jsonl", events)
    request = AnalysisRequest("rooms", FEW[:1], dimensions=["room"], rate=10.0, chunk=70)
    found = analyze_files([path], request)
    assert (found.chosen.outcome.events, found.chosen.outcome.is_guarantee_met) == (200, True)
    assert found.chosen.outcome.seconds == pytest.approx(19.9)


@pytest.mark.parametrize(
    ("text", "analysis", "complaint"),
    [
        ("", REQUEST, "none that can be read"),
        ("nonsense\n", REQUEST, "none that can be read"),
        ('{"machine": "m0", "time": 5}\n', REQUEST, "too few|needs events"),
        ('{"machine": "m0", "heat": 5}\n' * 9, replace(REQUEST, time=None, dimensions=["machine"]), "--time"),
        ('{"machine": "m0", "heat": 5}\n' * 9, REQUEST, "no such property"),
    ],
    ids=["empty", "nonsense", "one event", "no time", "no such time"],
)
def test_bad_input_is_named(spark, tmp_path, text, analysis, complaint):
    path = tmp_path / "m.jsonl"
    path.write_text(text)
    for run in (lambda: analyze_files([path], analysis), lambda: analyze(spark, [str(path)], analysis)):
        with pytest.raises(ThinwireError, match=complaint):
            run()


def test_missing_and_unreadable_files_are_named(spark, tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        analyze(spark, [str(tmp_path / "none.jsonl")], REQUEST)
    (tmp_path / "m.xlsx").write_text("")
    with pytest.raises(ConfigError, match="names end in"):
        analyze(spark, [str(tmp_path / "m.xlsx")], REQUEST)
    for name in ("m.jsonl.gz", "m.parquet"):
        (tmp_path / name).write_text("neither gzipped nor a table")
        for run in (partial(analyze, spark, [str(tmp_path / name)]), partial(analyze_files, [tmp_path / name])):
            with pytest.raises(ConfigError, match=rf"cannot be read.*/{name}'"):
                run(REQUEST)
    full = tmp_path / "full"
    full.mkdir()
    path = lines(full / "m.jsonl")
    with pytest.raises(ConfigError, match="must be empty"):
        analyze(spark, [str(path)], REQUEST, work=full)
    assert path.exists()


def test_a_task_can_be_sent_to_executors(tmp_path):
    level = Level("as asked", requested=(("flow", "1%"), ("speed", 2.0)))
    found = {"rows": {0: 4}, "ranges": {"flow": (1.0, 2.5)}}
    task = AnalysisTask(WorkFolder(tmp_path), sensor_schema(), grid((level,)), 5, begin=1.5, **found)
    copy = pickle.loads(pickle.dumps(task))
    assert replace(copy, folder=task.folder) == task
    assert copy.folder.path == tmp_path
