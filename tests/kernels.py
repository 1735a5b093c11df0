"""Compiles the kernels before the tests start, while linters run. Otherwise each test process compiles them."""

import conftest  # sets the folder of compiled kernels
import numpy as np

from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.codec.batch_encoder import publish_batch
from thinwire.codec.table_decoder import TableDecoder
from thinwire.demo.demo_scenario import compile_kernels
from thinwire.services.translator.hold_group import warm_up_hold_group
from thinwire_lab.overlay_sim.filters.threshold_index import IntervalIndex
from thinwire_lab.streams.sensor_stream import sensor_batch, sensor_schema

assert conftest.ROOT


def compile_all() -> None:
    compile_kernels()
    schema = sensor_schema()
    publisher = StreamEncoder(schema, name="p1")
    messages = publisher.start(0.0) + publish_batch(publisher, sensor_batch(600, sources=3), 0.0).frames
    numbers = range(1, 1 + len(messages))
    TableDecoder(StreamDecoder([schema], publisher="p1"), schema).decode(
        messages, offsets=numbers, times=[0.0] * len(messages)
    )
    warm_up_hold_group()
    IntervalIndex([1], value=0).offer_many(np.array([0, 2]))


if __name__ == "__main__":
    compile_all()
