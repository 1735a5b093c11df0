"""The program: commands imported on demand, errors in one line, exit codes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from thinwire.cli.main import Command, installed_commands, main
from thinwire.cli.terminal import run_for

FAKE_COMMANDS = '''
from pathlib import Path

import typer

from thinwire.errors import CorruptFrame, SchemaError

Path(__file__).with_suffix(".imported").touch()
many = typer.Typer()


@many.command()
def wire(count: int = 1) -> None:
    print(f"wire {count}")


@many.command()
def events() -> None:
    print("events")


def local() -> None:
    raise SchemaError("the step must be above zero", property="temperature")


def peer() -> None:
    raise CorruptFrame("too short")


def interrupted() -> None:
    raise KeyboardInterrupt


def bug() -> None:
    raise ZeroDivisionError("ours")


def reading(path: str) -> None:
    open(path)


def plotting() -> None:
    """Draw a figure."""
    import matplotlib.no_such_part


def misspelt() -> None:
    import no_such_module_at_all
'''


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Run a line with commands of a module that is not imported yet."""
    (tmp_path / "fakecommands.py").write_text(FAKE_COMMANDS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fakecommands", raising=False)
    names = ("many", "local", "peer", "interrupted", "bug", "reading", "plotting", "misspelt")
    commands = {name: Command("fakecommands", name, f"Help of {name}.") for name in names}
    return lambda line: main(line.split(), commands=commands)


def test_help_lists_every_command_and_imports_none(shell, tmp_path, capsys):
    assert shell("--help") == 0
    assert "Help of plotting." in capsys.readouterr().out
    assert not (tmp_path / "fakecommands.imported").exists()


def test_all_commands_are_installed():
    live = {"up", "pub", "sub", "watch", "record", "registry", "dict", "doctor"}
    spark = {"ingest", "replay", "analyze", "deliver", "sweep", "train-edge", "place-model", "workload"}
    assert set(installed_commands()) == live | spark | {
        "demo",
        "edge",
        "place",
        "samples",
        "bench",
        "reproduce",
        "ledger",
        "version",
    }


def test_a_command_parses_its_own_options(shell, capsys):
    assert shell("many wire --count 3") == 0
    assert shell("many events") == 0
    assert capsys.readouterr().out == "wire 3\nevents\n"


def test_help_of_a_command(shell, capsys):
    assert shell("plotting --help") == 0
    out = capsys.readouterr().out
    assert "Draw a figure." in out
    assert "thinwire plotting" in out


@pytest.mark.parametrize("line", ["nonsense", "local --nonsense", "many wire --count three", "reading"])
def test_wrong_usage_exits_with_2_and_an_error(shell, line, capsys):
    assert shell(line) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Error" in captured.err


@pytest.mark.parametrize(
    ("line", "code", "complaint"),
    [
        ("local", 2, "thinwire: bad schema: the step must be above zero: property='temperature'\n"),
        ("peer", 3, "thinwire: corrupt frame: too short. Wait for the next key frame.\n"),
        ("reading /no/such/file", 2, "thinwire: [Errno 2] No such file or directory: '/no/such/file'\n"),
        ("interrupted", 130, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(shell, line, code, complaint, capsys):
    assert shell(line) == code
    assert capsys.readouterr() == ("", complaint)


def test_a_missing_extra_is_named(shell, capsys):
    assert shell("plotting") == 2
    err = capsys.readouterr().err
    assert "this needs the extra plots" in err
    assert err.endswith("pip install 'thinwire[plots]'\n")


@pytest.mark.parametrize(("line", "error"), [("bug", ZeroDivisionError), ("misspelt", ModuleNotFoundError)])
def test_a_bug_keeps_its_traceback(shell, line, error):
    with pytest.raises(error):
        shell(line)


def test_json_prints_one_document_only(capsys):
    assert main(["version", "--json"]) == 0
    captured = capsys.readouterr()
    packages = {row["package"]: row for row in json.loads(captured.out)["packages"]}
    assert packages["python"]["version"].startswith(f"{sys.version_info.major}.")
    assert "installed" in captured.err


def test_both_spellings_of_version_agree(capsys):
    assert main(["--version"]) == 0
    number = capsys.readouterr().out.removeprefix("thinwire ").strip()
    assert main(["version"]) == 0
    assert number in capsys.readouterr().out


@pytest.mark.parametrize("unbuffered", ["1", ""], ids=["breaks at the first write", "breaks at the last flush"])
def test_a_closed_stdout_gives_no_error_message(unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    source = str(Path(__file__).parents[2] / "src")
    process = subprocess.run(
        [sys.executable, "-m", "thinwire", "version", "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": unbuffered},
        check=False,
        text=True,
    )
    os.close(writing)
    assert process.returncode == 1
    assert "Error" not in process.stderr
    assert "Exception" not in process.stderr


def test_a_time_limit_ends_the_work_but_a_timeout_of_the_work_is_an_error():
    async def fail():
        raise TimeoutError("the broker does not respond")

    assert not asyncio.run(run_for(0.0, asyncio.Event().wait()))
    with pytest.raises(TimeoutError, match="the broker does not respond"):
        asyncio.run(run_for(60.0, fail()))
