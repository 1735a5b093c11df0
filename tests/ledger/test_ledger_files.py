"""Ledger files: appending, reading, and errors with the position of damage."""

import json

import pytest

from thinwire.analysis.ledger_files import MAX_LINE, append, read
from thinwire.errors import LedgerError
from thinwire.ledger import Deviation, Row, to_document

ROWS = [Row("r", "räume\n", events=1), Row("r", "tanks", class_="strict")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "folder" / "run.jsonl"


def test_rows_are_read_in_order(path):
    append(path, ROWS)
    append(path, [])
    append(path, ROWS[:1])
    assert list(read(path)) == [*ROWS, ROWS[0]]
    assert path.read_bytes().count(b"\n") == 3


def test_infinity_is_written_as_json(path):
    exact = Deviation()
    exact.add(1.0, 0.0)
    append(path, [Row("r", errors={"count": exact})])
    json.loads(path.read_text(), parse_constant=pytest.fail)
    assert next(read(path)).error_max == float("inf")


def test_a_row_too_long_for_a_line_is_not_written(path):
    with pytest.raises(LedgerError) as caught:
        append(path, [ROWS[0], Row("r" * MAX_LINE)])
    assert (caught.value.limit, caught.value.file) == (MAX_LINE, str(path))
    assert not path.exists()


def test_a_line_truncated_by_a_crash_does_not_affect_others(path):
    append(path, ROWS)
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    append(path, ROWS)
    rows = read(path)
    assert next(rows) == ROWS[0]
    with pytest.raises(LedgerError, match="line=2"):
        next(rows)
    assert path.read_bytes().endswith(b"\n" + content)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"{",
        b"[" * 100_000,
        b"\xff",
        b'{"version":1,"run":"r","cpu_seconds":{"publisher":NaN}}',
        b'{"version":1,"run":"r","cpu_seconds":{"publisher":1e999}}',
        b'{"version":1,"run":"r","events":' + b"9" * 5000 + b"}",
        b'{"version":1,"run":"r","colour":"red"}',
        b'{"version":99}',
        b" " * (MAX_LINE + 1),
    ],
    ids=lambda line: repr(line[:50]),
)
def test_damage_is_reported_with_file_and_line(path, line):
    append(path, ROWS)
    with path.open("ab") as file:
        file.write(line + b"\n")
    rows = read(path)
    assert [next(rows), next(rows)] == ROWS
    with pytest.raises(LedgerError) as caught:
        next(rows)
    assert (caught.value.file, caught.value.line) == (str(path), 3)


def test_a_last_line_without_an_end_is_read(path):
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(to_document(ROWS[0])))
    assert list(read(path)) == ROWS[:1]
