"""A worker survives every kind of faulty function and reports the failure."""

import asyncio
import os
from pathlib import Path

import pytest

from thinwire.edge.topic_worker import ProcessWorker
from thinwire.errors import FunctionUnusable

FUNCTIONS = str(Path(__file__).parent / "functions")


def make_worker(name: str, megabytes: int = 64) -> ProcessWorker:
    return ProcessWorker(f"edge_functions:{name}", megabytes, [FUNCTIONS])


def run(name, checks, megabytes=64):
    async def run_checks():
        worker = make_worker(name, megabytes)
        try:
            await checks(worker)
        finally:
            await worker.close()

    asyncio.run(run_checks())


def test_results_are_bytes_text_json_or_none():
    async def checks(worker):
        outcome = await worker.process(b"gps", 20)
        assert (outcome.kind, outcome.body) == ("result", b"GPS")
        assert outcome.start <= outcome.end
        assert outcome.cpu >= 0

    run("shout", checks)

    async def filtered(worker):
        assert [(await worker.process(b, 20)).kind for b in (b"1", b"2", b"3")] == ["nothing", "result", "nothing"]

    run("even_only", filtered)

    async def json(worker):
        assert (await worker.process(b"abc", 20)).body == b'{"length":3}'

    run("counted", json)


@pytest.mark.parametrize(
    ("order", "kind", "message"),
    [
        ("exit", "died", "7"),
        ("garbage", "garbage", "not bytes, text or JSON"),
        ("hang", "hung", "no answer"),
        ("huge", "garbage", "above the limit"),
        ("leak", "memory", "memory"),
        ("raise", "raised", "no such taxi"),
        ("spin", "hung", "no answer"),
    ],
)
def test_a_failure_is_reported_and_the_next_message_is_processed(order, kind, message):
    async def checks(worker):
        await worker.start()
        outcome = await worker.process(order.encode(), 0.5 if kind == "hung" else 20)
        assert outcome.kind == kind
        assert message in outcome.body.decode()
        assert outcome.has_failed
        after = await worker.process(b"fine", 20)
        assert (after.kind, after.body) == ("result", b"fine")

    run("wayward", checks)


def test_printed_output_is_not_taken_for_a_result():
    async def checks(worker):
        assert (await worker.process(b"print", 20)).body == b"print"

    run("wayward", checks)


def test_secrets_of_the_host_do_not_reach_a_function(monkeypatch):
    monkeypatch.setenv("THINWIRE_TOKEN", "enchantress")
    monkeypatch.setenv("TAXI_CITY", "lisbon")

    async def checks(worker):
        assert (await worker.process(b"THINWIRE_TOKEN", 20)).body == b""
        assert (await worker.process(b"TAXI_CITY", 20)).body == b"lisbon"

    run("environment", checks)


@pytest.mark.parametrize(
    ("name", "message"), [("edge_functions:nothing_there", "nothing_there"), ("no_such_module:f", "no_such_module")]
)
def test_the_error_of_an_unloadable_function_names_the_cause(name, message):
    async def checks():
        worker = ProcessWorker(name, path=[FUNCTIONS])
        with pytest.raises(FunctionUnusable, match=message):
            await worker.start()
        assert worker._process is None

    asyncio.run(checks())


def test_a_cancelled_call_leaves_no_process():
    async def checks(worker):
        await worker.start()
        pid = worker._process.pid
        call = asyncio.create_task(worker.process(b"hang", 60))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run("wayward", checks)


def test_a_function_uses_the_newest_model_also_in_a_new_process():
    model = [None]

    async def checks():
        worker = ProcessWorker("edge_functions:by_model", 64, [FUNCTIONS], lambda: model[0])
        try:
            for given in (None, b"first", b"second"):
                model[0] = given
                assert (await worker.process(b"", 20)).body == (given or b"none")
            await worker.close()
            assert (await worker.process(b"", 20)).body == b"second"
            for bad in (b"raise", b"exit"):  # reported in the log; the message is still processed
                model[0] = bad
                outcomes = [await worker.process(b"", 20) for _ in range(2)]
                assert [outcome.kind for outcome in outcomes] == ["result"] * 2
            model[0] = b"hang"
            assert (await worker.process(b"", 0.5)).kind == "result"
            model[0] = b"third"
            assert (await worker.process(b"", 20)).body == b"third"
        finally:
            await worker.close()

    asyncio.run(checks())
