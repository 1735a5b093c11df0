"""Runs the examples of docs/spark.md in order, with a session, a broker and a recording."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_setup import broker, publish, record, rooms

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
TOPIC = "building.rooms"


@pytest.mark.slow
def test_examples_of_the_page_run(spark: SparkSession, tmp_path: Path) -> None:
    text = PAGE.read_text()
    blocks = list(re.finditer(r"^```python spark\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert len(blocks) >= 7
    with broker() as url:
        publish(url, rooms(TOPIC), 600)
        record(url, TOPIC, str(tmp_path / "rooms.rec"))
        names = {"__name__": "__page__", "spark": spark, "url": url, "folder": tmp_path}
        for block in blocks:
            # Blank lines in front make a traceback point at the line of the page.
            lines = "\n" * (text.count("\n", 0, block.start()) + 1)
            exec(compile(lines + block[1], str(PAGE), "exec"), names)
