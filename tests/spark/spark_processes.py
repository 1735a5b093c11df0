"""Spark in separate processes: a cluster of a master and workers, a Connect server, and drivers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
TIMEOUT = 300.0
"""seconds for a process to start or to end; several JVMs start on a busy machine"""


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[str]:
    """Yield the URL of a cluster that writes its logs and other files to the folder."""
    port = free_port()
    with ExitStack() as stack:
        master = ["org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0"]
        stack.enter_context(running("spark-class", master, folder / "master", "I have been elected leader"))
        url = f"spark://{HOST}:{port}"
        for n in range(workers):
            place = folder / f"worker{n}"
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", HOST, "--webui-port", "0"]
            worker += ["-c", "1", "-m", "1g", "-d", str(place / "work"), url]
            stack.enter_context(running("spark-class", worker, place, "Successfully registered with master"))
        yield url


@contextmanager
def connect_server(folder: Path, cores: int = 2) -> Iterator[str]:
    """Yield the URL of a Spark Connect server."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": folder / "warehouse",
    }
    arguments = ["--master", f"local[{cores}]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    arguments += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with running("spark-submit", [*arguments, "spark-internal"], folder, "Spark Connect server started at"):
        yield f"sc://{HOST}:{port}"


def drive(script: Path, *arguments: object, folder: Path) -> str:
    """Run a driver with another environment and return its output."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def running(program: str, arguments: list[str], folder: Path, ready: str) -> Iterator[None]:
    """Run a program of Spark, wait until it is ready, and end it with all its children."""
    folder.mkdir(parents=True)
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(HOME / "bin" / program), *arguments],
            cwd=folder,
            env=_environment(folder),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await(process, log, ready)
        yield
    finally:
        _end(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of this process, with all output folders of Spark in the folder."""
    scratch, settings = folder / "scratch", folder / "conf"
    scratch.mkdir(exist_ok=True)
    settings.mkdir(exist_ok=True)
    foreign = ("SPARK_", "PYSPARK_", "PYTHONPATH", "JAVA_TOOL_OPTIONS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return inherited | {
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(settings),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_DAEMON_MEMORY": "1g",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.worker.timeout={TIMEOUT:.0f}",  # a slow worker is not dead
        "PYSPARK_PYTHON": str(_bare_python(folder)),
        "TMPDIR": str(scratch),
    }


def _bare_python(folder: Path) -> Path:
    """Return a Python with the packages of this environment, without packages that are installed from a folder."""
    program = folder / "python"
    packages = sysconfig.get_path("purelib")
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    program.chmod(0o700)
    return program


def _await(process: subprocess.Popen[bytes], log: Path, ready: str) -> None:
    end = time.monotonic() + TIMEOUT
    while ready not in (output := log.read_text(errors="replace")):
        assert process.poll() is None, output
        assert time.monotonic() < end, output
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process, which ends its executors; then kill the remaining process group."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
