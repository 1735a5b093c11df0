"""Recording of examples: an encoder, a decoder, and what passes between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from thinwire.codec import (
    Audit,
    Delivery,
    Demand,
    EventsMissed,
    StreamConfig,
    StreamDecoder,
    StreamEncoder,
    Watermark,
    resolve,
)
from thinwire.codec.predictors import by_name
from thinwire.dictionaries import Dictionary
from thinwire.errors import PeerFault
from thinwire.schema import Event, Property, Schema
from thinwire.wire import FrameKind, PredictorChange, Request, Switch

QUIET = {"max_silence": 1e6, "key_frame_interval": 1e6}
ROOM = Property("room", "string", "dimension")


def plain(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery as JSON values."""
    if isinstance(delivery, Event):
        return {
            "event": {name: _value(value) for name, value in delivery.items()},
            "source": list(delivery.source),
            "ordinal": delivery.ordinal,
            "virtual": delivery.virtual,
            "bound": dict(delivery.bound),
            "flags": list(delivery.flags),
        }
    if isinstance(delivery, Watermark):
        return {"watermark": delivery.time}
    assert isinstance(delivery, EventsMissed | Audit)
    names = [field.name for field in fields(delivery) if field.name not in ("publisher", "exacts")]
    facts = {name: _value(getattr(delivery, name)) for name in names}
    return {"missed" if isinstance(delivery, EventsMissed) else "audit": facts}


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$hex": value.hex()}
    return list(value) if isinstance(value, tuple) else value


class Example:
    """An encoder, a decoder, and a record of what passes between them.

    dictionaries: those available to the decoder
    """

    def __init__(
        self,
        name: str,
        about: str,
        properties: list[Property],
        needs: Iterable[str] = (),
        dictionaries: Iterable[Dictionary] = (),
        **config: Any,
    ) -> None:
        self.name, self.about, self.needs = name, about, list(needs)
        self.dictionaries = {dictionary.hash: dictionary for dictionary in dictionaries}
        self.schema = Schema(f"vectors.{name}", properties)
        self.config = {"version": 1, "demand": {"predictor": "last"}, **QUIET, **config}
        self.publisher = self.new_publisher(1)
        find_dictionary = self.dictionaries.get
        self.subscriber = StreamDecoder([self.schema], publisher="p", compiled=False, dictionaries=find_dictionary)
        self.steps: list[dict[str, Any]] = []

    def new_publisher(self, incarnation: int) -> StreamEncoder:
        given = {**self.config, "demand": Demand(**self.config["demand"])}
        wide = given.pop("wide", False)
        over = resolve(self.schema, Demand(**given.pop("over"))) if "over" in given else None
        return StreamEncoder(
            self.schema,
            StreamConfig(**given),
            name="p",
            incarnation=incarnation,
            wide=wide,
            compiled=False,
            over=over,
            validated=over is not None,
        )

    def hand(self, messages: Iterable[bytes], note: str = "", position: int | None = None) -> None:
        """Pass messages to the decoder."""
        for message in messages:
            step: dict[str, Any] = {"note": note} if note else {}
            step["message"] = message.hex()
            if position is not None:
                step["position"] = position
            try:
                step["deliveries"] = [plain(d) for d in self.subscriber.receive(message, now=0.0, position=position)]
            except PeerFault as problem:
                step["raises"] = type(problem).__name__
            self.steps.append(step)

    def start(self, note: str = "") -> None:
        self.hand(self.publisher.start(0.0), note)

    def publish(self, note: str = "", *, now: float = 0.0, room: str = "11.1", **values: Any) -> None:
        self.hand(self.frames(now=now, room=room, **values), note)

    def frames(self, *, now: float = 0.0, room: str = "11.1", **values: Any) -> list[bytes]:
        """Return the frames of an event without passing them on."""
        given = {name: values[name] for name in values if name in self.schema}
        return self.publisher.publish({"room": room, **given}, now)

    def explicit_frames(self, ordinal: int, *flags: str, room: str = "11.1", **values: Any) -> list[bytes]:
        """Return the frames of an event of a decoder."""
        event = Event({"room": room, **values}, bound={}, source=(room,), ordinal=ordinal, flags=flags)
        return self.publisher.publish(event, 0.0)

    def heartbeat(self, now: float, note: str = "") -> None:
        self.hand(self.publisher.heartbeat(now), note)

    def key_frames(self, now: float, note: str = "") -> None:
        self.hand(self.publisher.answer(Request(0, 0), now), note)

    def switch(self, predictor: str | None, mode: int = 0, trend: int = 0, note: str = "") -> None:
        """Switch the predictor of the only property of the only source, as `auto` does."""
        chosen = by_name(predictor, self.schema["t"].period) if predictor else None
        change = PredictorChange(0, (chosen.mode if chosen else 0) | mode, chosen.coefficients if chosen else 0, trend)
        encoder = self.publisher.frame_encoder
        body = Switch(0, encoder.reducer.take_suppressed(0), (change,)).encode()
        encoder.reducer.table.switch(0, change)
        self.hand([encoder.frame(FrameKind.SWITCH, body)], note)

    def text(self) -> str:
        """Return the file with one line per delivery, so that differences are readable."""
        head = {"about": self.about, "needs": self.needs, "schema": self.schema.to_document(), "config": self.config}
        if self.dictionaries:
            head["dictionaries"] = [dictionary.encode().hex() for dictionary in self.dictionaries.values()]
        lines = [f"  {_json(name)}: {_json(value)}," for name, value in head.items()]
        return "\n".join(["{", *lines, '  "steps": [', ",\n".join(_step(step) for step in self.steps), "  ]", "}", ""])


def _step(step: dict[str, Any]) -> str:
    deliveries = step.get("deliveries")
    front = _json({name: value for name, value in step.items() if name != "deliveries"})[:-1]
    if not deliveries:
        return f"    {front}" + (', "deliveries": []}' if deliveries is not None else "}")
    listed = ",\n".join(f"      {_json(delivery)}" for delivery in deliveries)
    return f'    {front}, "deliveries": [\n{listed}\n    ]}}'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


EXAMPLES: list[Callable[[], Example]] = []


def example(make: Callable[[], Example]) -> Callable[[], Example]:
    EXAMPLES.append(make)
    return make


def temperature(**more: Any) -> Property:
    return Property("t", "number", step="0.1", **more)
