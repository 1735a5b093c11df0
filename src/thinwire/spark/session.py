"""A Spark session that is quiet, runs this very Python in its tasks, and knows the source `thinwire`.

Java, which Spark runs on and nothing else of thinwire needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.resources import as_file, files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from thinwire.errors import MissingExtra, SparkUnavailable
from thinwire.spark.executor_package import package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JAVA = 17
"""the oldest version that does"""
PATIENCE = 60.0
_WAYS = {
    "apt-get": "sudo apt-get install default-jre-headless",
    "dnf": "sudo dnf install java-latest-openjdk-headless",
    "brew": "brew install openjdk@17",
}


def java_version() -> int:
    """The version of the Java that Spark would start, 0 where there is none."""
    home = os.environ.get("JAVA_HOME")
    try:
        done = subprocess.run(
            [f"{home}/bin/java" if home else "java", "-version"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_java_version(done.stdout + done.stderr)


def parse_java_version(said: str) -> int:
    """The version that a Java tells of itself.

    >>> parse_java_version('openjdk version "17.0.9" 2023-10-17'), parse_java_version("java: not found")
    (17, 0)
    """
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def how_to_install() -> str:
    """The command that brings Java to this machine, in words where there is no such command."""
    found = (way for program, way in _WAYS.items() if shutil.which(program))
    return next(found, f"install a JRE {JAVA} or newer of your choice and set JAVA_HOME")


SPARK = (4, 3)
"""the oldest version that does: its Python sources take part in admission control"""
REMOTE = "sc://"
ARROW = "-Darrow.enable_null_check_for_get=false"
"""Spark asks whether a value is null before it gets it: Arrow need not ask again for every value of every row"""


def session(master: str = "local[*]", *, app: str = "thinwire", ship: bool | None = None, **conf: Any) -> SparkSession:
    """A session on this master, `sc://host:port` for a remote one, with the source `thinwire` registered.

    ship: take the package along to the executors; by default wherever they may be other machines
    conf: settings of Spark, such as `**{"spark.sql.shuffle.partitions": 4}`
    """
    check(remote=master.startswith(REMOTE))
    from pyspark.sql import SparkSession

    _configure_workers(master)
    builder = SparkSession.builder.appName(app)
    if master.startswith(REMOTE):
        builder = builder.remote(master)
    else:
        builder = builder.master(master)
        conf = {**_defaults(), **conf}
    for name, value in conf.items():
        builder = builder.config(name, str(value))
    made = builder.getOrCreate()
    if ship if ship is not None else not is_local(master):
        made.addArtifacts(str(package()), pyfile=True)
    register(made)
    return made


def is_local(master: str) -> bool:
    """Do tasks run on this machine, in the very process of the master?

    >>> is_local("local[2]"), is_local("spark://host:7077")
    (True, False)
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def register(spark: SparkSession) -> None:
    """Let a session know the source: `spark.read.format("thinwire")`."""
    from thinwire.spark.source.data_source import ThinwireDataSource

    spark.dataSource.register(ThinwireDataSource)


def check(*, remote: bool = False) -> None:
    """Raise what keeps Spark from running here; a remote session needs no Java."""
    if find_spec("pyspark") is None:
        raise MissingExtra("Spark is not installed", extra="spark")
    import pyspark

    check_spark(pyspark.__version__)
    if not remote:
        check_java(java_version())


def check_spark(version: str) -> None:
    """Is this version of Spark new enough?"""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < SPARK:
        needed = ".".join(map(str, SPARK))
        raise SparkUnavailable(
            f"Spark {needed} or newer is needed: pip install 'thinwire[spark]'", found=version, needed=needed
        )


def check_java(version: int) -> None:
    """Is this version of Java new enough?"""
    if version < JAVA:
        raise SparkUnavailable(
            f"Java {JAVA} or newer is needed: {how_to_install()}", found=version or "none", needed=JAVA
        )


def _configure_workers(master: str) -> None:
    """Which Python runs the tasks, and under which address they find this process."""
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # workers would take the first python3 of the PATH
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master) or "//127.0.0.1:" in master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # others could not reach this process there


def _defaults() -> dict[str, str]:
    """Quiet, and quick with columns that come from Python."""
    with as_file(files("thinwire.spark") / "log4j2.properties") as path:
        return {
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={path.as_uri()} {ARROW}",
            "spark.executor.defaultJavaOptions": ARROW,
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.enabled": "false",
        }
