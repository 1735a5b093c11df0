"""A disk that becomes full during a job: the error is reported, and no folder is marked complete."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from thinwire.errors import JobFailed
from thinwire_lab.workload.builtin_summary import builtin
from thinwire_lab.workload.recipe import Recipe
from thinwire_lab.workload.spark.workload_folder import generate

RECIPE = Recipe(subscriptions=20_000, events=100, brokers=3, seed=1)


@contextmanager
def full_disk(spark: SparkSession, size: int) -> Iterator[None]:
    """No file of Spark may grow beyond this size, which simulates a full disk."""
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process: Linux only")
def test_a_full_disk_in_mid_job_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "wide"
    with full_disk(spark, 300_000), pytest.raises(JobFailed, match=r"nothing was written: .*File too large"):
        generate(spark, builtin(), RECIPE, out)
    assert list(tmp_path.iterdir()) == []
    generate(spark, builtin(), RECIPE, out)
    assert max(path.stat().st_size for path in (out / "subscriptions").iterdir()) > 300_000
