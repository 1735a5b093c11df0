"""A worker survives every kind of bad function, and says what happened."""

import asyncio
import os
from pathlib import Path

import pytest

from thinwire.edge.topic_worker import ProcessWorker
from thinwire.errors import FunctionUnusable

FUNCTIONS = str(Path(__file__).parent / "functions")


def worker(name: str, megabytes: int = 64) -> ProcessWorker:
    return ProcessWorker(f"edge_functions:{name}", megabytes, [FUNCTIONS])


def run(name, tell, megabytes=64):
    async def told():
        one = worker(name, megabytes)
        try:
            await tell(one)
        finally:
            await one.close()

    asyncio.run(told())


def test_results_are_bytes_text_or_json_or_nothing():
    async def tell(one):
        outcome = await one.process(b"gps", 20)
        assert (outcome.kind, outcome.body) == ("result", b"GPS")
        assert outcome.start <= outcome.end
        assert outcome.cpu >= 0

    run("shout", tell)

    async def filtered(one):
        assert [(await one.process(body, 20)).kind for body in (b"1", b"2", b"3")] == ["nothing", "result", "nothing"]

    run("even_only", filtered)

    async def json(one):
        assert (await one.process(b"abc", 20)).body == b'{"length":3}'

    run("counted", json)


@pytest.mark.parametrize(
    ("order", "kind", "told"),
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
def test_what_a_bad_function_does_is_told_and_the_next_message_is_processed(order, kind, told):
    async def tell(one):
        await one.start()
        outcome = await one.process(order.encode(), 0.5 if kind == "hung" else 20)
        assert outcome.kind == kind
        assert told in outcome.body.decode()
        assert outcome.has_failed
        after = await one.process(b"fine", 20)
        assert (after.kind, after.body) == ("result", b"fine")

    run("wayward", tell)


def test_what_it_prints_is_not_taken_for_an_answer():
    async def tell(one):
        assert (await one.process(b"print", 20)).body == b"print"

    run("wayward", tell)


def test_secrets_of_the_host_do_not_reach_a_function(monkeypatch):
    monkeypatch.setenv("THINWIRE_TOKEN", "enchantress")
    monkeypatch.setenv("TAXI_CITY", "lisbon")

    async def tell(one):
        assert (await one.process(b"THINWIRE_TOKEN", 20)).body == b""
        assert (await one.process(b"TAXI_CITY", 20)).body == b"lisbon"

    run("environment", tell)


@pytest.mark.parametrize(
    ("name", "told"), [("edge_functions:nothing_there", "nothing_there"), ("no_such_module:f", "no_such_module")]
)
def test_a_function_that_cannot_be_loaded_says_why(name, told):
    async def tell():
        one = ProcessWorker(name, path=[FUNCTIONS])
        with pytest.raises(FunctionUnusable, match=told):
            await one.start()
        assert one._process is None

    asyncio.run(tell())


def test_a_cancelled_call_leaves_no_process():
    async def tell(one):
        await one.start()
        pid = one._process.pid
        call = asyncio.create_task(one.process(b"hang", 60))
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run("wayward", tell)


def test_a_function_goes_by_its_newest_model_and_a_new_process_by_the_same():
    model = [None]

    async def tell():
        one = ProcessWorker("edge_functions:by_model", 64, [FUNCTIONS], lambda: model[0])
        try:
            for given in (None, b"first", b"second"):
                model[0] = given
                assert (await one.process(b"", 20)).body == (given or b"none")
            await one.close()
            assert (await one.process(b"", 20)).body == b"second"
            for bad in (b"raise", b"exit"):  # told in the log; the message is processed all the same
                model[0] = bad
                outcomes = [await one.process(b"", 20) for _ in range(2)]
                assert [outcome.kind for outcome in outcomes] == ["result"] * 2
            model[0] = b"hang"
            assert (await one.process(b"", 0.5)).kind == "result"
            model[0] = b"third"
            assert (await one.process(b"", 20)).body == b"third"
        finally:
            await one.close()

    asyncio.run(tell())
