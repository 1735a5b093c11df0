"""`thinwire sub --audit`: bounds and measured errors."""

import json
import math

import pytest

from thinwire.cli.audit_report import AuditReport
from thinwire.cli.main import main
from thinwire.codec import Audit

TOPIC = "audit.rooms"


@pytest.fixture(scope="module")
def filled(url, tmp_path_factory):
    """The URL of a broker with stored events, one in four as an audit frame."""
    from asyncio import run

    import thinwire as tw

    schema = tw.Schema(
        TOPIC,
        [
            tw.Property("room", "string", "dimension"),
            tw.Property("t", "number", step="0.1"),
            tw.Property("n", "integer"),
        ],
    )

    async def fill():
        async with tw.connect(url) as bus:
            await bus.register(schema, retain=True, tolerance={"t": 0.5}, audit_every=4)
            async with bus.publisher(TOPIC, name="p1") as out:
                for n in range(80):
                    await out.publish({"room": f"R{n % 2}", "t": 20 + (n * 7 % 11) / 10, "n": n})
                await out.flush()

    run(fill())
    return url


def sub(capsys, url, *args, code=0):
    assert main(["sub", TOPIC, "--to", url, "--start", "earliest", "-n", "80", "--tolerance", "t=0.5", *args]) == code
    return capsys.readouterr()


def test_the_table_is_printed_besides_the_events(filled, capsys):
    output = sub(capsys, filled, "--audit")
    assert len(output.out.splitlines()) == 80
    assert "bounds and measured errors" in output.err
    assert " t " in output.err


def test_the_document_replaces_the_events(filled, capsys):
    document = json.loads(sub(capsys, filled, "--audit", "--json").out)
    rows = {row["property"]: row for row in document["properties"]}
    assert document["topic"] == TOPIC
    assert rows["t"]["audits"] >= 15
    assert 0 < rows["t"]["largest"] <= rows["t"]["bound"] == rows["t"]["tolerance"] == 0.5
    assert rows["n"]["largest"] == rows["n"]["broken"] == 0


def test_json_requires_audit(filled, capsys):
    assert main(["sub", TOPIC, "--to", filled, "--json"]) == 2
    assert "--audit" in capsys.readouterr().err


def test_exceeded_bounds_are_counted_and_missing_bounds_are_not():
    report = AuditReport()
    report.add(Audit("p1", ("T1",), 1, {"t": 0.4, "u": 9.0}, {"t": 0.5, "u": None}, {}))
    assert not report.has_violations
    report.add(Audit("p1", ("T1",), 2, {"t": math.inf, "u": 0.0}, {"t": 0.5, "u": 1.0}, {}))
    assert report.has_violations
    t, u = report.rows({"t": 0.5, "u": 1.0})
    assert (t["audits"], t["broken"], t["largest"]) == (2, 1, math.inf)
    assert (u["bound"], u["broken"]) == (None, 0)
    assert report.rows({"u": 1.0}) == [u]


def test_without_audit_frames_a_remedy_is_printed(capsys):
    AuditReport().show("rooms", "log", {}, json=False)
    assert "audit_every" in capsys.readouterr().err
