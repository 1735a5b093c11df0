"""Messages of an edge topic as a table, a model trained on it, and its assignment to a function."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Broker
from thinwire.edge import EdgePublisher, EdgeTopic, apply, store_model
from thinwire.edge.edge_documents import EDGE, edge_key
from thinwire.errors import ConfigError
from thinwire_lab.live.edge.load_harness import FUNCTIONS
from thinwire_lab.spark.edge_training import append_messages, last_stored, train_model

GPS = EdgeTopic("r1.gps", "taxi_regions:aggregated", 10.0, 0.001, output="r1.update")


async def _publish(broker: Broker, speeds: list[float]) -> None:
    out = EdgePublisher(broker, "r1.update", "p")
    for number, speed in enumerate(speeds):
        await out.publish(json.dumps({"region": "r1", "speed": speed}).encode(), id=f"{speed}/{number}", due=0.0)


def test_a_model_is_trained_on_stored_messages_and_assigned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [FUNCTIONS, *sys.path])
    from taxi_training import usual

    async def scenario() -> None:
        broker = LocalBroker(LocalServer())
        with pytest.raises(ConfigError, match="no rows yet"):
            train_model(spark, tmp_path, usual)
        await _publish(broker, [10.0, 20.0, 60.0])
        assert await append_messages(broker, "r1.update", tmp_path) == 3
        assert await append_messages(broker, "r1.update", tmp_path) == 0
        await _publish(broker, [40.0, 40.0])
        assert await append_messages(broker, "r1.update", tmp_path) == 2
        assert last_stored(tmp_path) == 5
        model = train_model(spark, tmp_path, usual)
        assert json.loads(model) == {"r1": 40.0}
        with pytest.raises(ConfigError, match="no such edge topic"):
            await store_model(broker, "r1.gps", model)
        await apply(broker, [GPS], {"r1.gps": "h1"})
        await store_model(broker, "r1.gps", model)
        entry = await (await broker.bucket(EDGE)).get(edge_key("model", "r1.gps"))
        assert entry is not None
        assert entry.value == model
        with pytest.raises(ConfigError, match="limit="):
            await store_model(broker, "r1.gps", b"")
        with pytest.raises(ConfigError, match="bytes, text or JSON"):
            train_model(spark, tmp_path, lambda frame: object())
        await broker.close()

    asyncio.run(scenario())
