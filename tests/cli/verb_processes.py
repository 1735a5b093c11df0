"""Commands in separate processes, for tests of signals, pipes and child processes."""

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
TIMEOUT = 60


def start(*args, **options):
    """Start a command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THINWIRE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "thinwire", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": SOURCE},
        preexec_fn=_restore_interrupts,  # noqa: PLW1509 - it only makes a system call
        **options,
    )


def _restore_interrupts():
    """Handle Ctrl-C, which processes in the background of a script ignore, as do their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def running(*args):
    """Yield a service and the JSON line of its start; end it with SIGTERM if it still runs."""
    process = start(*args)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


def children(process):
    """Return the child processes of a process."""
    return psutil.Process(process.pid).children(recursive=True)


def have_ended(processes):
    """Return whether all of these processes end."""
    left = psutil.wait_procs(processes, timeout=TIMEOUT)[1]
    return not left


def wait_until(condition):
    """Wait until a condition that depends on another process holds."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
