"""The command `workload` without Spark: summaries from files, and errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from thinwire.cli.main import main
from thinwire_lab.cli.summary_files import read_summary

SOURCE = str(Path(__file__).parents[3] / "src")
TABLES = {
    "topics": "id,parent,name\nall,,All\na,all,A\nb,all,B\n",
    "languages": "id,parent\nany,\nx,any\n",
    "members": "topic,language,region,count\na,x,north,30\nb,x,south,10\n",
    "messages": "topic,language,per_month\na,x,3\n",
    "nodes": "region,u,v\nnorth,0,1\nsouth,9,2\n",
    "groups": "topics,language,region,members,messages\na;b,x,north,5,2\nall,x,north,1,1\n",
}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in TABLES.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_tables_are_checked_and_written(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "checked"
    assert main(["workload", "summary", "build", "--from", str(mine), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["members"] == 2
    assert read_summary(out).members.counts.sum() == 40
    assert main(["workload", "summary", "build", "--from", str(mine), "--out", str(out)]) == 2
    assert "the folder exists" in capsys.readouterr().err


def test_groups_are_counted(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "counted"
    assert main(["workload", "summary", "build", "--from", str(mine), "--groups", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"]["taken"] == 1
    assert sum(pq.read_table(out / "members.parquet")["count"].to_pylist()) == 10


def test_a_bad_table_is_named_and_nothing_is_written(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine / "members.csv").write_text("topic,language,region,count\na,x,north,-4\n")
    out = tmp_path / "bad"
    assert main(["workload", "summary", "build", "--from", str(mine), "--out", str(out)]) == 2
    assert "table='members', column='count', row=1, value=-4" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("option", "error"), [("--diffusion 2", "diffusion"), ("--events 1.5", "whole number"), ("--location moon", "moon")]
)
def test_settings_outside_their_limits_are_refused_before_spark_starts(
    option: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workload", "generate", "--out", str(tmp_path / "w"), *option.split()]) == 2
    assert error in capsys.readouterr().err


def test_a_full_disk_leaves_no_complete_folder(mine: Path, tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk."""
    out = tmp_path / "checked"
    (tmp_path / "checked.unfinished").mkdir()
    (tmp_path / "checked.unfinished" / "stale.parquet").write_bytes(b"of a run that was killed")
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000)); "
    code += "from thinwire.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = ["workload", "summary", "build", "--from", str(mine), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    run = [sys.executable, "-B", "-c", code, *command]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]


def test_files_of_a_killed_run_are_not_reused(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "checked.unfinished").mkdir()
    (tmp_path / "checked.unfinished" / "stale.parquet").write_bytes(b"of a run that was killed")
    out = tmp_path / "checked"
    assert main(["workload", "summary", "build", "--from", str(mine), "--out", str(out)]) == 0
    assert not (out / "stale.parquet").exists()
