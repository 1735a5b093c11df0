"""Public records as files, for `workload summary build`: a folder `hierarchy` with a folder `netlatency` beside it.

Taken are the IAB content taxonomy, subreddits of two days and Meetup topics as groups, countries with their languages,
Glottolog's families, and pings between cities. A subreddit says as much a month as it gained in subscribers from one
day to the other, a Meetup topic as much as it has groups: how much is really said, neither tells.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from thinwire.errors import SummaryError
from thinwire_lab.workload.summary_composing import Country, Group, Ping, Records

TAXONOMY = "iab_content_taxonomy_2.2.tsv.gz"
SUBREDDITS = ("reddit_subreddits_2023-12-31.json.gz", "reddit_subreddits_2024-02-13.json.gz")
MEETUP = "meetup_topics.csv.gz"
COUNTRIES = "countries_mledoze.json.gz"
FAMILIES = "glottolog_languages.csv.gz"
CODES = "iso639_language_codes_full.csv.gz"
PINGS = "netlatency/wondernetwork_city_pings_2018-11.csv.gz"
MOST_BYTES = 200_000_000
"""of a file, unpacked"""
A_MONTH = 30.4


def is_real(folder: Path) -> bool:
    """Are these the public records, and no tables of a summary?"""
    return (folder / TAXONOMY).exists()


def read_records(folder: Path) -> Records:
    """Everything that a summary is composed from."""
    codes = {row["alpha2"]: row["alpha3-t"] or row["alpha3-b"] for row in _table(folder / CODES) if row["alpha2"]}
    return Records(
        taxonomy=_taxonomy(folder / TAXONOMY),
        countries=[_country(one) for one in json.loads(_text(folder / COUNTRIES))],
        families=_families(folder / FAMILIES),
        groups=[*_subreddits(folder), *_meetup(folder / MEETUP, codes)],
        pings=[
            Ping(row["source"].replace("+", " "), row["dest_label"], float(row["rtt_avg_ms"]))
            for row in _table(folder.parent / PINGS)
        ],
    )


def _taxonomy(path: Path) -> list[tuple[str, str, str]]:
    """Two lines of headings, then id, parent and name."""
    rows = [line.split("\t") for line in _text(path).splitlines()[2:]]
    return [(row[0].strip(), row[1].strip(), row[2].strip()) for row in rows if row[0].strip()]


def _country(one: dict[str, Any]) -> Country:
    name = one["name"]
    names = [name["common"], name["official"], *one.get("altSpellings", [])]
    return Country(names, one["region"], sorted(one.get("languages", {})))


def _families(path: Path) -> dict[str, str]:
    rows = list(_table(path))
    names = {row["ID"]: row["Name"] for row in rows}
    return {row["ISO639P3code"]: names.get(row["Family_ID"], "") for row in rows if row["ISO639P3code"]}


def _subreddits(folder: Path) -> Iterator[Group]:
    before, after = ({one["id"]: one for one in json.loads(_text(folder / name))} for name in SUBREDDITS)
    for own, one in sorted(after.items()):
        earlier = before.get(own, one)
        days = (datetime.fromisoformat(one["date"]) - datetime.fromisoformat(earlier["date"])).days
        gained = max(one["num_subscribers"] - earlier["num_subscribers"], 0)
        yield Group(one["display_name"], one["num_subscribers"], gained * A_MONTH / max(days, 1))


def _meetup(path: Path, codes: dict[str, str]) -> Iterator[Group]:
    for row in _table(path):
        language = codes.get(row["lang"].partition("_")[0])
        yield Group(row["name"], float(row["member_count"]), float(row["group_count"]), language)


def _table(path: Path) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(_text(path).splitlines())


def _text(path: Path) -> str:
    try:
        with gzip.open(path) as file:
            found = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise SummaryError("a file of the public records is missing", file=path.name, folder=str(path.parent)) from None
    except (OSError, EOFError) as problem:
        raise SummaryError(f"it cannot be unpacked: {problem}", file=path.name, folder=str(path.parent)) from None
    if len(found) > MOST_BYTES:
        raise SummaryError("unpacked it is larger than any public record", file=path.name, limit=MOST_BYTES)
    return found.decode("utf-8-sig")
