"""Recordings are read in their published formats, including irregularities, here from small files."""

import gzip
import json

import pytest

from thinwire.errors import MissingData
from thinwire.testing.guarantee_checker import GuaranteeChecker
from thinwire_lab.bench import recording_requirements as gate
from thinwire_lab.bench.benchmark import NEEDS_DATA, Setting
from thinwire_lab.streams import datasets


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(encoding)))


@pytest.fixture
def folder(tmp_path):
    head = "datetime;Current;Volume Flow RateRMS;anomaly;changepoint\r\n"
    for name in ("valve1_0", "valve1_10", "valve2_0"):
        lines = [f"2020-03-09 10:14:{30 + i};{round(1 + i / 100, 2)};{32.0 + i % 2};0.0;0.0\r\n" for i in range(20)]
        write(tmp_path / f"sensors-skab/{name}.csv.gz", head + "".join(lines))
    write(tmp_path / "sensors-skab/other_8.csv.gz", head)
    write(tmp_path / "sensors-wsn/ulb_library1_R1.txt.gz", "1163438041250 20 1 21,21 2,81 51,53 22,08 20 28\n")
    third = "\n1163497985546 20 1\xa0000 21,21 2,68 52,11 22,14 41 42\n"
    write(tmp_path / "sensors-wsn/ulb_library1_R3.txt.gz", third, "latin-1")
    write(tmp_path / "sensors-wsn/ulb_library2_readings.txt.gz", "1164976515546 1 0 17,9 3 52,34 23,2 2 1\n")
    status = {"poll_time": 1685924247, "last_reported": 1685924186, "station_id": "a", "num_bikes_available": 13}
    polls = [status | {"poll_time": 1685924247 + 600 * i, "num_bikes_available": 13 + i // 3} for i in range(9)]
    del polls[4]["num_bikes_available"]
    write(
        tmp_path / "bikeshare/baywheels_station_status_2023.ndjson.gz",
        "".join(json.dumps(poll) + "\n" for poll in polls),
    )
    return tmp_path


def test_valves_have_a_run_a_file_and_no_labels(folder):
    valves = datasets.skab_valves(folder)
    assert [len(run) for run in valves.runs] == [20, 20, 20]
    assert valves.runs[0][1] == {"datetime": "2020-03-09 10:14:31", "Current": 1.01, "Volume Flow RateRMS": 33.0}
    assert valves.seconds(valves.runs[0][1]) - valves.seconds(valves.runs[0][0]) == 1
    assert valves.tolerances(0.005) == {
        "Current": pytest.approx(0.005 * 0.19),
        "Volume Flow RateRMS": pytest.approx(0.005),
    }


def test_motes_read_decimal_commas_and_thousands_marks(folder):
    motes = datasets.motes(folder)
    assert [len(run) for run in motes.runs] == [2, 1]
    assert motes.runs[0][1]["sequence"] == 1000
    assert motes.runs[0][1]["internal_temp"] == 21.21
    assert "sequence" not in motes.tolerances(0.005)
    assert motes.seconds(motes.runs[1][0]) == 1164976515.546


def test_bikes_may_lack_a_count(folder):
    bikes = datasets.bike_share(folder)
    assert len(bikes.runs[0]) == 9
    assert bikes.tolerances(0.5) == {"num_bikes_available": 1.0}
    assert len(datasets.bike_share(folder, limit=4).runs[0]) == 4


@pytest.mark.parametrize("read", [datasets.skab_valves, datasets.motes, datasets.bike_share])
def test_a_missing_recording_is_named(tmp_path, read):
    with pytest.raises(MissingData, match="--data"):
        read(tmp_path)


def test_recordings_are_measured_and_checked(folder):
    for benchmark in gate.BENCHMARKS:
        for row in benchmark.measure(Setting(data=folder)):
            assert not row.invalid
            assert row.value is not None
            assert row.value > 0
            assert "bytes each" in row.how


def test_rows_without_data_are_not_measured():
    rows = [row for benchmark in gate.BENCHMARKS for row in benchmark.measure(Setting())]
    assert len(rows) == 7
    assert {row.note for row in rows} == {NEEDS_DATA}
    assert {row.holds for row in rows} == {None}


def test_deflate_is_the_smaller_baseline():
    sizes = gate.baselines([{"room": "11.1", "readings": "20.5 " * 20}])
    assert 0 < sizes["JSON+deflate"] < sizes["JSON"]


def test_a_row_with_a_broken_guarantee_does_not_hold(folder, monkeypatch):
    sent = GuaranteeChecker.sent
    monkeypatch.setattr(GuaranteeChecker, "sent", lambda self, event: sent(self, {**event, "last_reported": 0}))
    bikes = next(benchmark for benchmark in gate.BENCHMARKS if benchmark.name == "bike share")
    for row in bikes.measure(Setting(data=folder)):
        assert row.holds is False
        assert row.invalid.startswith("guarantee broken: last_reported differs by 1.68592e+09")
