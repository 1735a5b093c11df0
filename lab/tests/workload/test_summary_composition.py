"""A summary composed from public records: each rule by hand, and the real records where they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thinwire.cli.main import main
from thinwire_lab.cli.summary_files import TAXONOMY, has_public_records, read_summary
from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.interests.interests import correlations
from thinwire_lab.workload.summary import Country, Group, Ping, Records, compose, from_groups

REAL = Path(__file__).parents[4] / "shared" / "data" / "hierarchy"
SMALL = Records(
    taxonomy=[("1", "", "Sport"), ("2", "1", "Table Tennis"), ("3", "1", "Golf")],
    countries=[
        Country(["Northland", "Republic of Northland"], "North", ["nor", "sam"]),
        Country(["Southland"], "South", ["sou"]),
        Country(["Nowhere"], "Pole", ["pol"]),
    ],
    families={"nor": "Germanic", "sou": "Romance"},
    groups=[Group("table-tennis", 10, 2, "sou"), Group("whatever", 5, 1), Group("GOLF", 1, 1, "xyz")],
    pings=[
        Ping("Hill", "Old Hill Northland, Here", 30.0),
        Ping("Old Hill", "Hill Southland, There", 32.0),
        Ping("Hill", "Atlantis Sea, There", 1.0),
    ],
)


def test_rules_are_followed_and_counted() -> None:
    tables, report = compose(SMALL)
    groups = tables["groups"].to_pylist()
    assert groups[0] == {"topics": "2", "language": "sou", "region": "South", "members": 10, "messages": 2}
    assert groups[1]["topics"] in ("2", "3")
    assert groups[2]["topics"] == "3"
    assert all(g["region"] == ("South" if g["language"] == "sou" else "North") for g in groups)
    assert report == {
        "cities": 2,
        "cities without a known country": 1,
        "topics by name": 2,
        "topics dealt": 1,
        "languages told": 1,
        "languages dealt": 2,
    }
    assert tables["nodes"]["region"].to_pylist() == ["South", "North"]
    families = dict(zip(tables["languages"]["id"].to_pylist(), tables["languages"]["parent"].to_pylist(), strict=True))
    assert families["sam"] == "family: Other"
    assert "pol" not in families  # no member has a location at the pole
    summary, tally = from_groups(tables)
    assert tally.taken == 3
    assert summary.members.counts.sum() == 16
    assert compose(SMALL)[0]["groups"] == tables["groups"]


def test_records_without_places_are_refused() -> None:
    with pytest.raises(SummaryError, match="no city whose country is known"):
        compose(SMALL._replace(countries=SMALL.countries[2:]))


def test_a_missing_or_broken_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "hierarchy"
    folder.mkdir()
    (folder / TAXONOMY).write_bytes(b"no gzip")
    command = ["workload", "summary", "build", "--from", str(folder), "--out", str(tmp_path / "real")]
    assert main(command) == 2
    assert "iso639_language_codes_full.csv.gz" in capsys.readouterr().err
    assert not (tmp_path / "real").exists()


@pytest.mark.skipif(not has_public_records(REAL), reason="the public records are not here")
def test_the_real_records_make_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "real"
    assert main(["workload", "summary", "build", "--from", str(REAL), "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rules"]["cities"] == 238
    assert report["groups"]["taken"] == report["groups"]["groups"] > 5_000
    members = read_summary(out).members
    found = correlations(members)
    assert found["language"] > 0.5, "bits about the region"
    assert members.popularity.max() > 0.01 * members.popularity.sum()
