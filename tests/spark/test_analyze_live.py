"""The prediction of an analysis agrees with a live run over a broker."""

import asyncio
import json
import time
from datetime import datetime

import pytest

from thinwire import connect
from thinwire.analysis import EXACT, AnalysisRequest, Level, grid
from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.proxy import Proxy
from thinwire.demo import building
from thinwire.ledger import RowTally
from thinwire.spark.jobs.analyze import analyze
from thinwire.testing.guarantee_checker import GuaranteeChecker
from thinwire.topics.topic_plan import load_plan, write_plan

TOPIC = "plant.rooms"
PLANTS, SECONDS = 25, 20
WITHIN = 0.02
"""of the bytes of JSON"""


@pytest.mark.slow
def test_the_plan_saves_live_what_the_analysis_predicts(spark, tmp_path):
    recorded = list(building.events(PLANTS * SECONDS, seed=3, sources=PLANTS))
    path = tmp_path / "plants.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in recorded))
    levels = (EXACT, Level("2 %", 0.02))
    request = AnalysisRequest(TOPIC, grid(levels, lingers=(0.1,)), time="timestamp", dimensions=["plant"], chunk=150)
    found = analyze(spark, [str(path)], request)
    (tmp_path / "plan.toml").write_text(write_plan(found.to_plan()))
    plan = load_plan(tmp_path / "plan.toml").topic(TOPIC)

    held_out = sorted(recorded, key=_seconds)[-found.chosen.outcome.events :]
    frames, link, arrived = asyncio.run(_live(plan, held_out))
    assert arrived == len(held_out)
    [json_alone] = [one for one in found.baselines if one.linger is None]
    outcome = found.chosen.outcome
    assert plan.expected["frame_saving"] == pytest.approx(1 - frames / json_alone.raw, abs=WITHIN)
    predicted = outcome.running.link + outcome.end.link
    assert 1 - link / json_alone.link == pytest.approx(1 - predicted / json_alone.link, abs=WITHIN)


async def _live(plan, events) -> tuple[int, int, int]:
    """Publish events with the plan. Return bytes of frames, bytes on sockets, and the number of delivered events."""
    checker = GuaranteeChecker(plan.schema, plan.stream_config.demand, RowTally("live"))
    arrived = 0
    async with EmbeddedServer() as server, Proxy(LOOPBACK, server.port) as proxy:
        url = f"nats://{LOOPBACK}:{proxy.port}"
        async with (
            connect(url) as bus,
            connect(url) as other,
            other.subscribe(TOPIC, schema=plan.schema) as subscription,
            bus.publisher(TOPIC, name="publisher", **plan.publishing) as out,
        ):

            async def take() -> None:
                nonlocal arrived
                async for event in subscription:
                    checker.delivered(event)
                    arrived += 1

            taking = asyncio.create_task(take())
            await asyncio.sleep(1.0)
            before = proxy.to_broker + proxy.from_broker
            begin, first = time.monotonic(), _seconds(events[0])
            for event in events:
                await asyncio.sleep(begin + _seconds(event) - first - time.monotonic())
                checker.sent(event)
                await out.publish(event)
            await out.flush()
            for _ in range(100):
                if arrived >= len(events):
                    break
                await asyncio.sleep(0.1)
            link = proxy.to_broker + proxy.from_broker - before
            frames = out.counts.frame_bytes
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
    assert checker.is_guarantee_met
    return frames, link, arrived


def _seconds(event) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()
