"""The program behind the embedded server, and how it is started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from thinwire.errors import MissingExtra

# Runs before the server, in its process: asks the kernel for a signal when the parent is gone, then becomes the server.
# A function run between fork and exec would do the same, but is not safe in a process with threads.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def find_binary() -> str:
    """Where the nats-server of this environment is."""
    places = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    found = shutil.which("nats-server", path=os.pathsep.join(map(str, places))) or shutil.which("nats-server")
    if found is None:
        raise MissingExtra("the embedded broker needs the program nats-server", extra="nats")
    return found


def launch(binary: str, config: Path, output: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start the server; it holds the lock of its directory as long as it lives, and dies with this process."""
    before = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
    with output.open("wb") as written:
        return subprocess.Popen(
            [*before, binary, "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            pass_fds=(lock,),
            start_new_session=True,  # a Ctrl-C is for this process, which then stops the server
        )
