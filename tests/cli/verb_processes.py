"""Verbs as processes of their own, for what one cannot try from inside: signals, pipes, children."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

SOURCE = str(Path(__file__).parents[2] / "src")
PATIENCE = 60


def start(*args, **options):
    """A verb that runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THINWIRE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "thinwire", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": SOURCE},
        preexec_fn=_hear_interrupts,  # noqa: PLW1509 - it calls nothing but the system
        **options,
    )


def _hear_interrupts():
    """Whoever runs in the background of a script ignores Ctrl-C, and so would all it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def running(*args):
    """A service and the line it announces itself with; ended with SIGTERM where the test has not."""
    process = start(*args)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def children(process):
    """The processes a process has started."""
    return psutil.Process(process.pid).children(recursive=True)


def gone(processes):
    """Do all of these end?"""
    left = psutil.wait_procs(processes, timeout=PATIENCE)[1]
    return not left


def wait_until(condition):
    """Wait for something that another process does."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
