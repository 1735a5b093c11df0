"""Processes of a chain: commanded, killed, started again, and never left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import pytest

from thinwire.demo.process_group import WorkerFailed, WorkerProcess, environment, gather_answers, process_group
from thinwire.schema import Property, Schema
from thinwire_lab.live.process_measurement import ProcessSampler, cores_used
from thinwire_lab.live.stacks import route_to

ROUTE = asdict(route_to("nats://127.0.0.1:1", Schema("rooms", [Property("t", "integer")])))
IDLE = {"kind": "json", "route": ROUTE, "feed": "feed", "number": 0, "connections": 0}
"""a subscriber that has no connections needs no broker"""


def test_a_group_executes_commands_and_exits():
    async def run():
        workers = [WorkerProcess(f"subscriber {k}", "subscriber", IDLE) for k in range(2)]
        async with process_group(workers):
            pids = [worker.pid for worker in workers]
            async with ProcessSampler({worker.name: worker.pid for worker in workers}) as sampler:
                answers = await gather_answers(worker.request(30.0, do="begin", timed_from=0) for worker in workers)
            assert answers == [{"missed": []}] * 2
            assert set(cores_used(sampler.series)) == {"subscriber 0", "subscriber 1"}
        return pids

    assert not any(_lives(pid) for pid in asyncio.run(run()))


def test_a_killed_process_starts_again():
    async def run():
        worker = WorkerProcess("subscriber", "subscriber", IDLE)
        await worker.start()
        first = worker.pid
        await worker.kill()
        with pytest.raises(WorkerFailed, match="does not run"):
            await worker.send_command(do="begin")
        await worker.start()
        assert worker.pid != first
        assert await worker.request(30.0, do="begin", timed_from=0) == {"missed": []}
        await worker.exit()
        return first

    assert not _lives(asyncio.run(run()))


def test_a_failed_process_reports_its_error():
    async def run():
        worker = WorkerProcess("subscriber", "subscriber", {**IDLE, "moon": 1})
        with pytest.raises(WorkerFailed, match="unexpected keyword argument 'moon'"):
            await worker.start()
        await worker.exit()

    asyncio.run(run())


ORPHAN = f"""
import asyncio, os, signal
from thinwire.demo.process_group import WorkerProcess
async def run():
    worker = WorkerProcess("subscriber", "subscriber", {IDLE!r})
    await worker.start()
    print(worker.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(run())
"""


def test_a_process_dies_with_its_parent():
    parent = subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, env=environment(), check=False)
    assert parent.returncode == -signal.SIGKILL
    pid, deadline = int(parent.stdout), time.monotonic() + 30
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(pid)


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # an ended process stays a zombie until its new parent waits for it
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"
