"""Files of `workload summary build`: tables of a summary as CSV or Parquet, one for each, and public records.

Public records are the IAB content taxonomy, subreddits of two days and Meetup topics as groups, countries with their
languages, the families of Glottolog, and pings between cities, which are in the adjacent folder `netlatency`. The
records have no number of messages: that of a subreddit is its growth of subscribers per month, that of a Meetup topic
its number of groups.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from thinwire_lab.errors import SummaryError
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.spark.workload_folder import new_folder
from thinwire_lab.workload.summary import AXES, Country, Group, Ping, Records, Summary

TAXONOMY = "iab_content_taxonomy_2.2.tsv.gz"
SUBREDDITS = ("reddit_subreddits_2023-12-31.json.gz", "reddit_subreddits_2024-02-13.json.gz")
MEETUP = "meetup_topics.csv.gz"
COUNTRIES = "countries_mledoze.json.gz"
FAMILIES = "glottolog_languages.csv.gz"
CODES = "iso639_language_codes_full.csv.gz"
PINGS = "netlatency/wondernetwork_city_pings_2018-11.csv.gz"
MAX_BYTES = 200_000_000
"""of an unpacked file"""
DAYS_PER_MONTH = 30.4


def has_public_records(folder: Path) -> bool:
    """Return whether a folder has the public records, not tables of a summary."""
    return (folder / TAXONOMY).exists()


def read_records(folder: Path) -> Records:
    """Read the records that a summary is composed of."""
    codes = {row["alpha2"]: row["alpha3-t"] or row["alpha3-b"] for row in _table(folder / CODES) if row["alpha2"]}
    return Records(
        taxonomy=_taxonomy(folder / TAXONOMY),
        countries=[_country(entry) for entry in json.loads(_text(folder / COUNTRIES))],
        families=_families(folder / FAMILIES),
        groups=[*_subreddits(folder), *_meetup(folder / MEETUP, codes)],
        pings=[
            Ping(row["source"].replace("+", " "), row["dest_label"], float(row["rtt_avg_ms"]))
            for row in _table(folder.parent / PINGS)
        ],
    )


def _taxonomy(path: Path) -> list[tuple[str, str, str]]:
    """Read id, parent and name after two lines of headings."""
    rows = [line.split("\t") for line in _text(path).splitlines()[2:]]
    return [(row[0].strip(), row[1].strip(), row[2].strip()) for row in rows if row[0].strip()]


def _country(entry: dict[str, Any]) -> Country:
    name = entry["name"]
    names = [name["common"], name["official"], *entry.get("altSpellings", [])]
    return Country(names, entry["region"], sorted(entry.get("languages", {})))


def _families(path: Path) -> dict[str, str]:
    rows = list(_table(path))
    names = {row["ID"]: row["Name"] for row in rows}
    return {row["ISO639P3code"]: names.get(row["Family_ID"], "") for row in rows if row["ISO639P3code"]}


def _subreddits(folder: Path) -> Iterator[Group]:
    before, after = ({entry["id"]: entry for entry in json.loads(_text(folder / name))} for name in SUBREDDITS)
    for identity, entry in sorted(after.items()):
        earlier = before.get(identity, entry)
        days = (datetime.fromisoformat(entry["date"]) - datetime.fromisoformat(earlier["date"])).days
        gained = max(entry["num_subscribers"] - earlier["num_subscribers"], 0)
        yield Group(entry["display_name"], entry["num_subscribers"], gained * DAYS_PER_MONTH / max(days, 1))


def _meetup(path: Path, codes: dict[str, str]) -> Iterator[Group]:
    for row in _table(path):
        language = codes.get(row["lang"].partition("_")[0])
        yield Group(row["name"], float(row["member_count"]), float(row["group_count"]), language)


def _table(path: Path) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(_text(path).splitlines())


def _text(path: Path) -> str:
    try:
        with gzip.open(path) as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SummaryError("a file of the public records is missing", file=path.name, folder=str(path.parent)) from None
    except (OSError, EOFError) as error:
        raise SummaryError(f"a file cannot be unpacked: {error}", file=path.name, folder=str(path.parent)) from None
    if len(content) > MAX_BYTES:
        raise SummaryError("an unpacked file is above the limit", file=path.name, limit=MAX_BYTES)
    return content.decode("utf-8-sig")


READERS = {".csv": pc.read_csv, ".parquet": pq.read_table}


def read_summary(folder: Path | None) -> Summary:
    """Read the summary of a folder, or return the built-in one."""
    if folder is None:
        return builtin()
    tables = read_tables(folder)
    known = ("members", "messages", "nodes", "latencies", "regions", "groups")
    axes = [name for name in AXES if f"{name}s" in tables]
    axes += sorted(name[:-1] for name in tables if name not in known and name.endswith("s") and name[:-1] not in AXES)
    return Summary.read(tables, axes or AXES)


def read_tables(folder: Path) -> dict[str, pa.Table]:
    """Read every table of a folder, by file name."""
    if not folder.is_dir():
        raise SummaryError("no such folder", folder=str(folder))
    return {path.stem: _read(path) for path in sorted(folder.iterdir()) if path.suffix in READERS}


def write_tables(tables: dict[str, pa.Table], out: Path) -> None:
    """Write all tables into a new folder, which appears when they are complete."""
    with new_folder(out) as folder:
        for name, table in tables.items():
            pq.write_table(table, folder / f"{name}.parquet")


def _read(path: Path) -> pa.Table:
    try:
        return READERS[path.suffix](path)
    except pa.ArrowException as error:
        raise SummaryError(f"a table cannot be read: {error}", table=path.stem, file=str(path)) from None
