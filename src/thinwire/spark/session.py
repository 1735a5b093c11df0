"""Spark sessions with the data source `thinwire`, and checks of the Spark and Java versions."""

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


MIN_JAVA = 17
"""oldest supported version of Java"""
JAVA_TIMEOUT = 60.0
_INSTALL_COMMANDS = {
    "apt-get": "sudo apt-get install default-jre-headless",
    "dnf": "sudo dnf install java-latest-openjdk-headless",
    "brew": "brew install openjdk@17",
}


def java_version() -> int:
    """Return the version of the Java that Spark starts, 0 if there is none."""
    home = os.environ.get("JAVA_HOME")
    try:
        result = subprocess.run(
            [f"{home}/bin/java" if home else "java", "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)', result.stdout + result.stderr)
    return int(match[1]) if match else 0


MIN_SPARK = (4, 3)
"""oldest supported version of Spark: Python data sources with admission control"""
REMOTE = "sc://"
JVM_OPTION = "-Darrow.enable_null_check_for_get=false"
"""Spark checks for null itself; a second check in Arrow costs time for every value"""


def session(master: str = "local[*]", *, app: str = "thinwire", ship: bool | None = None, **conf: Any) -> SparkSession:
    """Return a session on this master (`sc://host:port` for Spark Connect) with the source `thinwire` registered.

    ship: send thinwire and its extensions to the executors; by default if these may run on other machines
    conf: settings of Spark, such as `**{"spark.sql.shuffle.partitions": 4}`
    """
    check(remote=master.startswith(REMOTE))
    from pyspark.sql import SparkSession

    _set_environment(master)
    builder = SparkSession.builder.appName(app)
    if master.startswith(REMOTE):
        builder = builder.remote(master)
    else:
        builder = builder.master(master)
        conf = {**_defaults(), **conf}
    for name, value in conf.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    if ship if ship is not None else not is_local(master):
        spark.addArtifacts(str(package()), pyfile=True)
    register(spark)
    return spark


def is_local(master: str) -> bool:
    """Return whether tasks run in the process of the driver.

    >>> is_local("local[2]"), is_local("spark://host:7077")
    (True, False)
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def register(spark: SparkSession) -> None:
    """Register the source of `spark.read.format("thinwire")` with a session."""
    from thinwire.spark.source.data_source import ThinwireDataSource

    spark.dataSource.register(ThinwireDataSource)


def check(*, remote: bool = False) -> None:
    """Raise an error if Spark cannot run here. A remote session needs no Java."""
    if find_spec("pyspark") is None:
        raise MissingExtra("Spark is not installed", extra="spark")
    import pyspark

    check_spark(pyspark.__version__)
    if not remote:
        check_java(java_version())


def check_spark(version: str) -> None:
    """Raise `SparkUnavailable` if this version of Spark is too old."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < MIN_SPARK:
        needed = ".".join(map(str, MIN_SPARK))
        detail = f"Spark {needed} or newer is needed: pip install 'thinwire[spark]'"
        raise SparkUnavailable(detail, found=version, needed=needed)


def check_java(version: int) -> None:
    """Raise `SparkUnavailable` if this version of Java is too old."""
    if version < MIN_JAVA:
        commands = (command for program, command in _INSTALL_COMMANDS.items() if shutil.which(program))
        advice = next(commands, f"install a JRE {MIN_JAVA} or newer and set JAVA_HOME")
        detail = f"Java {MIN_JAVA} or newer is needed: {advice}"
        raise SparkUnavailable(detail, found=version or "none", needed=MIN_JAVA)


def _set_environment(master: str) -> None:
    """Set the variables of the environment for the Python of the tasks and the address of the driver."""
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise workers use the first python3 of the PATH
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master) or "//127.0.0.1:" in master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # not for remote masters, which could not reach the driver


def _defaults() -> dict[str, str]:
    """Return settings for less logging and faster Arrow columns."""
    with as_file(files("thinwire.spark") / "log4j2.properties") as path:
        return {
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={path.as_uri()} {JVM_OPTION}",
            "spark.executor.defaultJavaOptions": JVM_OPTION,
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.enabled": "false",
        }
