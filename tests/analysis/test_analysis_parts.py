"""The parts of an analysis: reading, splitting, learning, choosing, the report and its plan."""

import gzip
import json
from dataclasses import replace
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.analysis import (
    EXACT,
    AnalysisOutcome,
    AnalysisRequest,
    Goal,
    Level,
    RatedStrategy,
    Rejects,
    Strategy,
    analyze_files,
    grid,
    render_page,
)
from thinwire.analysis.event_columns import EventClock, to_batch, to_events
from thinwire.analysis.event_files import MAX_LINE, RecordedEvent, read_events
from thinwire.analysis.property_cost import measure_property_costs
from thinwire.analysis.strategy_choice import choose_strategy, pareto_front
from thinwire.analysis.work_folder import SortedEvents, write_sorted
from thinwire.errors import ConfigError
from thinwire.schema import Property, Schema
from thinwire.topics.topic_plan import read_plan, write_plan

HALF = Level("0.5 %", 0.005)


def readings(count, start=0):
    rng = np.random.default_rng(3)
    heat = np.round(20 + np.cumsum(rng.normal(0, 0.05, count)), 1)
    begin = datetime(2024, 5, 1, 10)
    return [
        {"time": f"{begin + timedelta(seconds=start + i)}Z", "sensor": f"T{i % 3}", "air": {"heat": value}}
        for i, value in enumerate(heat.tolist())
    ]


def written(path, events, *more):
    path.write_text("".join(f"{line}\n" for line in (*map(json.dumps, events), *more)))
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = written(tmp_path_factory.mktemp("report") / "a.jsonl", readings(600), "<script>alert(1)</script>")
    strategies = grid(levels=(EXACT, HALF), lingers=(0.005, 5.0))
    found = analyze_files([path], AnalysisRequest("building.rooms", strategies=strategies))
    return replace(found, command="thinwire analyze a.jsonl", version="0")


class Page(HTMLParser):
    """Collects resources that a browser would fetch, and checks that tags are closed."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.fetched += [v for k, v in attrs if k in ("src", "href", "xlink:href") and not (v or "").startswith("#")]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_has_no_external_resources(report):
    text = render_page(report)
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.fetched == []
    assert {"svg", "table", "h1"} <= page.tags
    assert not {"script", "link", "iframe", "img"} & page.tags
    assert "@import" not in text
    assert "url(http" not in text
    assert "&lt;script&gt;" in text
    assert report.chosen.name in text
    assert "thinwire analyze a.jsonl" in text


def test_the_plan_has_the_chosen_strategy(report):
    plan = report.to_plan()
    assert read_plan(write_plan(plan)) == plan
    topic, chosen = plan.topic("building.rooms"), report.chosen
    assert topic.schema == report.training.schema
    assert topic.expected["link_saving"] == pytest.approx(chosen.link_saving, abs=1e-4)
    assert topic.linger == chosen.outcome.strategy.linger <= Goal().max_linger


def test_figures_are_of_the_part_held_out(report):
    assert report.training.events == 300
    assert {one.outcome.events for one in report.strategies} == {300}
    assert all(one.outcome.is_guarantee_met for one in report.strategies)
    assert {cost.level for cost in report.properties} == {"exact", "0.5 %"}
    names = {one.outcome.strategy.name for one in report.strategies}
    assert len(names) == len(report.strategies) == 16


@pytest.mark.parametrize("seed", range(3))
def test_held_out_events_do_not_change_schema_and_ranges(seed, tmp_path):
    rng = np.random.default_rng(seed)
    strange = [{**event, "air": {"heat": float(rng.normal(0, 1e6))}} for event in readings(40, 40)]
    strange[::2] = [{**event, "more": "x"} for event in strange[::2]]
    request = AnalysisRequest("rooms", strategies=[Strategy(EXACT)])
    usual, odd = (
        analyze_files([written(tmp_path / "a.jsonl", [*readings(40), *second])], request).training
        for second in (readings(40, 40), strange)
    )
    assert usual == odd
    assert usual.events == 40


@given(st.lists(st.integers(0, 20), min_size=2, max_size=40), st.floats(0.05, 0.95))
def test_a_cut_puts_every_instant_on_one_side(instants, share):
    times = sorted(map(float, instants))
    with TemporaryDirectory() as folder:
        write_sorted(Path(folder) / "sorted", [RecordedEvent(at, "a", n, {}) for n, at in enumerate(times)])
        events = SortedEvents(Path(folder) / "sorted")
        if times[0] == times[-1]:
            with pytest.raises(ConfigError, match="too few instants"):
                events.find_first_held_out(share)
            return
        cut = events.find_first_held_out(share)
    assert times[cut - 1] < times[cut]
    assert cut <= max(share * len(times), times.count(times[0]))


def test_bad_lines_are_counted_and_sampled(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    lines = [b'{"t": 1}', b"{half", b"[1]", b"", b'{"t": 2}', b"\xff\xfe", b'{"t": 3}']
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    rejects = Rejects()
    assert [read.event["t"] for read in read_events(path, rejects)] == [1, 2, 3]
    assert rejects.count == 3
    assert [reject.line for reject in rejects.examples] == [2, 3, 6]
    assert "not JSON" in rejects.examples[0].reason


def test_tables_and_text_give_the_same_events(tmp_path):
    events = [{"sensor": "007", "heat": 20.5, "on": True, "n": None}, {"sensor": "T2", "heat": 21, "on": False, "n": 4}]
    (tmp_path / "a.csv").write_text("sensor;heat;on;n\r\n007;20.5;true;\r\nbad\r\nT2;21;false;4\r\n")
    pq.write_table(pa.Table.from_pylist(events), tmp_path / "a.parquet")
    rejects = Rejects()
    assert [read.event for read in read_events(tmp_path / "a.csv", rejects)] == events
    assert [read.event for read in read_events(tmp_path / "a.parquet", rejects)] == events
    assert [(reject.line, reject.reason) for reject in rejects.examples] == [(3, "1 fields, 4 columns")]
    for name, complaint in {"a.xls": "names end in", "a.parquet.gz": "name it .parquet"}.items():
        with pytest.raises(ConfigError, match=complaint):
            list(read_events(tmp_path / name, rejects))


def test_a_line_may_have_the_largest_length(tmp_path):
    longest = json.dumps({"text": "x" * (MAX_LINE - len('{"text": ""}'))})
    assert len(longest) == MAX_LINE
    for end in ("\n", "\r\n", ""):
        (tmp_path / "a.jsonl").write_text("{}\n" + longest + " \n" + longest + end, newline="")
        rejects = Rejects()
        assert [read.line for read in read_events(tmp_path / "a.jsonl", rejects)] == [1, 3]
        assert [(reject.line, len(reject.text)) for reject in rejects.examples] == [(2, 200)]


def test_csv_that_cannot_be_parsed_is_rejected(tmp_path):
    path, rejects = tmp_path / "a.csv", Rejects()
    path.write_text("room,text\nr1," + "x" * 200_000 + "\nr2,y\rz\nr3,fine\n", newline="")
    assert [read.event["room"] for read in read_events(path, rejects)] == ["r3"]
    assert [reject.line for reject in rejects.examples] == [2, 3]
    assert all(reject.reason.startswith("not CSV") for reject in rejects.examples)
    for header in (b"", b"\xff,text", b"room," + b"x" * 200_000, b"x" * (MAX_LINE + 1)):
        path.write_bytes(header + b"\nr1,warm\n")
        with pytest.raises(ConfigError, match="must have the column names"):
            list(read_events(path, rejects))


def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path):
    rejects = Rejects()
    for name, text in {"a.jsonl": '{"room":"r1"}\n', "a.csv": "room\nr1\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert [read.event for read in read_events(tmp_path / name, rejects)] == [{"room": "r1"}]
    assert rejects.count == 0


def test_the_text_of_a_reject_can_be_written_to_files(tmp_path):
    path, rejects = tmp_path / "a.jsonl", Rejects()
    path.write_bytes(b"\xff\n" + b"\xff" * (MAX_LINE + 1))
    assert list(read_events(path, rejects)) == []
    assert [reject.reason for reject in rejects.examples] == ["not UTF-8 text", f"longer than {MAX_LINE} characters"]
    assert all(reject.text.encode().startswith(b"\\udcff") for reject in rejects.examples)


def test_events_become_columns_and_events_again():
    schema = Schema(
        "rooms",
        [
            Property("room", "string", "dimension"),
            Property("air.heat", "number", step="0.1"),
            Property("raw", "opaque"),
        ],
    )
    events = [{"room": "a", "air": {"heat": 20.5}, "raw": {"x": [1, None]}}, {"room": "b", "air": {"heat": 2.0}}]
    converted = to_batch([*events, {"room": "a", "air": 5}, {"room": "a", "air": {"heat": "x"}}], schema)
    assert to_events(converted.batch, schema) == events
    assert [index for index, _ in converted.rejected] == [2, 3]


def test_clocks_read_every_form_of_time():
    epoch = Schema("e", [Property("time", "timestamp", "header", form="epoch", step=1)])
    millis = pa.RecordBatch.from_pydict({"time": [1_700_000_000_000, 1_700_000_000_500, 1_700_000_000_100]})
    assert EventClock(epoch).read(millis).tolist() == [1_700_000_000.0, 1_700_000_000.5, 1_700_000_000.5]
    odd = Schema("e", [Property("time", "timestamp", "header", form="iso:T1Z")])
    texts = pa.RecordBatch.from_pydict({"time": ["1970-01-01T00:00:01.5Z", "never", "1970-01-01T00:00:02.5Z"]})
    assert EventClock(odd).read(texts).tolist() == [1.5, 1.5, 2.5]
    timeless = Schema("e", [Property("t", "number", step="0.1")])
    with pytest.raises(ConfigError, match="have no time"):
        EventClock(timeless)
    assert EventClock(timeless, rate=2.0).read(pa.RecordBatch.from_pydict({"t": [1.0, 2.0]})).tolist() == [0.0, 0.5]


def rated(saving, error, *, level=EXACT, linger=0.005, cpu=1e-5):
    outcome = AnalysisOutcome("rooms", Strategy(level, linger=linger), 0.0, 1.0, publish_cpu=cpu, receive_cpu=cpu)
    return RatedStrategy(outcome, saving, saving, saving, saving, error)


def test_the_front_has_no_dominated_strategies():
    good, coarse, late = rated(0.8, 0.0), rated(0.9, 0.01, level=HALF), rated(0.85, 0.0, linger=0.1)
    beaten, costly = rated(0.7, 0.001, level=HALF), rated(0.8, 0.0, cpu=1e-3)
    assert pareto_front([good, coarse, beaten, late, costly]) == [coarse, late, good]


def test_the_choice_meets_the_goal():
    levels = [Level("0.1 %", 0.001), Level("0.5 %", 0.005), Level("1 %", 0.01)]
    savings = [rated(0.5, 0.0), *(rated(s, v.share, level=v) for s, v in zip([0.8, 0.85, 0.88], levels, strict=True))]
    assert choose_strategy(savings).outcome.strategy.level.name == "0.1 %"
    assert choose_strategy(savings, Goal(level="exact")) is savings[0]
    late = rated(0.99, 0.0, linger=10.0)
    assert choose_strategy([*savings, late], Goal(level="exact")) is savings[0]
    assert choose_strategy([*savings, late], Goal(level="exact", max_linger=10.0)) is late
    with pytest.raises(ConfigError, match="no such level"):
        choose_strategy(savings, Goal(level="2 %"))
    for count in ("missing", "unexpected"):
        broken = replace(savings[0], outcome=replace(savings[0].outcome, **{count: 1}))
        with pytest.raises(ConfigError, match="keeps its bounds"):
            choose_strategy([broken])


def test_the_choice_is_on_the_front_if_savings_are_nearly_equal():
    cheaper, dominating = rated(0.80001, 0.0, cpu=1.2e-5), rated(0.80004, 0.0, cpu=1.4e-5)
    assert pareto_front([cheaper, dominating]) == [dominating]
    assert choose_strategy([cheaper, dominating]) is dominating
    assert choose_strategy([cheaper, dominating], Goal(level="exact")) is dominating


def test_a_property_costs_what_leaving_it_out_saves():
    schema = Schema(
        "rooms",
        [Property("room", "string", "dimension"), Property("busy", "number", step="0.1"), Property("idle", "integer")],
    )
    rng = np.random.default_rng(5)
    busy = np.round(rng.normal(20, 3, 2_000), 1)
    batch = pa.RecordBatch.from_pydict({"room": ["a"] * 2_000, "busy": busy, "idle": [4] * 2_000})
    exact, loose = Level("exact"), Level("loose", requested=(("busy", 100.0),))
    costs = {
        (cost.property, cost.level): cost
        for cost in measure_property_costs(batch, schema, [exact, loose], {"busy": (0, 40)})
    }
    assert costs["busy", "exact"].bytes_per_event > 1
    assert costs["busy", "exact"].sent_share > 0.9
    assert costs["idle", "exact"].sent_share < 0.01
    assert costs["busy", "loose"].bytes_per_event < 0.1


def test_levels_name_absolute_and_relative_tolerances():
    schema = Schema("rooms", [Property("t", "number", step="0.1"), Property("state", "enum", domain="status")])
    requested_level = Level("asked", 0.01, requested=(("t", 0.3),))
    assert requested_level.tolerances(schema, {"t": (0.0, 10.0)}) == {"t": 0.3}
    assert EXACT.tolerances(schema, {"t": (0.0, 10.0)}) == {}
    assert json.dumps(Level("1 %", 0.01).tolerances(schema, {"t": (0.0, 10.0)})) == '{"t": 0.1}'
    with pytest.raises(ConfigError, match="share of the range"):
        Level("all", 1.5)
