"""Logs as JetStream streams: creation, content, and single messages by subject, offset and time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from thinwire.brokers.nats.jetstream_api import (
    NO_STREAM,
    NOT_FOUND,
    STREAM_NAME_IN_USE,
    JetStreamCaller,
    JetStreamRefusal,
    Reply,
)
from thinwire.brokers.nats.protocol_core import parse_headers, parse_status
from thinwire.brokers.protocol import Retention, Span, StoredMessage
from thinwire.brokers.subjects import ANY_TOKENS, check_pattern, is_literal, matches
from thinwire.errors import BadSubject, BrokerRefused, ConfigError, ThinwireError, UnknownLog

PREFIX = "tw_"
"""prefix of the names of thinwire's logs"""
NANOSECONDS = 10**9
_END_OF_BATCH = 204
_SUBJECTS_PER_REQUEST = 500
"""the limit of the server is 1024 replies"""
_LOG = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,250}")


class JetStreamStore:
    """The streams of a server."""

    def __init__(self, connection: JetStreamCaller) -> None:
        self._connection = connection

    async def ensure_log(self, log: str, subjects: Sequence[str], retention: Retention | None = None) -> None:
        """Create the log unless it exists. Raise `ConfigError` if the existing log does not store these subjects."""
        check_log(log)
        for subject in subjects:
            check_pattern(subject)
        retention = retention or Retention()
        limits = {
            "max_age": round((retention.max_age or 0) * NANOSECONDS),
            "max_bytes": -1 if retention.max_bytes is None else retention.max_bytes,
            "max_msgs": -1 if retention.max_messages is None else retention.max_messages,
        }
        config = await self.create_stream({"name": log, "subjects": list(subjects), "discard": "old", **limits})
        missing = [
            subject for subject in subjects if not any(_covers(existing, subject) for existing in config["subjects"])
        ]
        if missing:
            raise ConfigError("the log exists and does not store these subjects", log=log, missing=missing)

    async def create_stream(self, config: dict[str, Any]) -> dict[str, Any]:
        """Create a stream that allows direct reads, unless it exists. Return its configuration."""
        name = config["name"]
        try:
            return await self._config(name)
        except UnknownLog:
            pass
        body = {"retention": "limits", "storage": "file", "num_replicas": 1, "allow_direct": True, **config}
        try:
            deadline = self._connection.deadline()
            created = await self._connection.call_api(f"STREAM.CREATE.{name}", body, deadline=deadline)
        except JetStreamRefusal as refusal:
            if refusal.code != STREAM_NAME_IN_USE:
                raise refusal.translate(log=name) from None
            return await self._config(name)  # another client created it at the same time
        result: dict[str, Any] = created["config"]
        return result

    async def _info(self, log: str, body: dict[str, Any] | None, deadline: float | None) -> dict[str, Any]:
        """Return the server's description of a log."""
        check_log(log)
        call_deadline = self._connection.deadline() if deadline is None else deadline
        try:
            return await self._connection.call_api(f"STREAM.INFO.{log}", body, deadline=call_deadline)
        except JetStreamRefusal as refusal:
            raise refusal.translate(log=log) from None

    async def delete_log(self, log: str) -> None:
        check_log(log)
        try:
            await self._connection.call_api(f"STREAM.DELETE.{log}", deadline=self._connection.deadline())
        except JetStreamRefusal as refusal:
            if refusal.code != NO_STREAM:
                raise refusal.translate(log=log) from None

    async def span(self, log: str, deadline: float | None = None) -> Span:
        """Return the content of a log. The identity of the log is the creation time of its stream."""
        info = await self._info(log, None, deadline)
        state, log_id = info["state"], str(info.get("created", ""))
        first, last = int(state["first_seq"]), int(state["last_seq"])
        return Span(max(first, 1), last, int(state["messages"]), int(state["bytes"]), log_id)

    async def subjects(self, log: str, pattern: str = ">") -> dict[str, int]:
        check_pattern(pattern)
        found: dict[str, int] = {}
        while True:
            info = await self._info(log, {"subjects_filter": pattern, "offset": len(found)}, None)
            page = info["state"].get("subjects") or {}
            found.update(page)
            if not page or len(found) >= int(info.get("total", 0)):
                return found

    async def logs(self) -> list[str]:
        found: list[str] = []
        offset = 0
        while True:
            deadline = self._connection.deadline()
            result = await self._connection.call_api("STREAM.NAMES", {"offset": offset}, deadline=deadline)
            page = result.get("streams") or []
            offset += len(page)
            found.extend(name for name in page if name.startswith(PREFIX))
            if not page or offset >= int(result["total"]):
                return sorted(found)

    async def last(
        self, log: str, pattern: str, *, up_to: int | None = None, deadline: float | None = None
    ) -> StoredMessage | None:
        """Return the newest message whose subject matches, at or before offset `up_to` if given."""
        check_pattern(pattern)
        newest = await self._get_first(log, {"last_by_subj": pattern}, deadline)
        if newest is None or up_to is None or newest.offset <= up_to:
            return newest  # a request with an `up_to` after the end of the log returns no message
        if up_to < 1:
            return None
        # The server limits the number of replies, therefore a pattern is resolved to its subjects.
        subjects = [pattern] if is_literal(pattern) else list(await self.subjects(log, pattern))
        found: list[StoredMessage] = []
        for begin in range(0, len(subjects), _SUBJECTS_PER_REQUEST):
            body = {"multi_last": subjects[begin : begin + _SUBJECTS_PER_REQUEST], "up_to_seq": up_to}
            found.extend(_stored_message(reply) for reply in await self._get(log, body, deadline))
        return max(found, default=None)

    async def first_message(
        self, log: str, subject: str, first: int, deadline: float | None = None
    ) -> StoredMessage | None:
        """Return the first message whose subject matches at or after offset `first`."""
        return await self._get_first(log, {"seq": first, "next_by_subj": subject}, deadline)

    async def newest_message(self, log: str, subject: str) -> tuple[StoredMessage, dict[str, str]] | None:
        """Return the newest message under a subject, with its headers."""
        replies = await self._get(log, {"last_by_subj": subject}, None)
        return (_stored_message(replies[0]), parse_headers(replies[0].headers)) if replies else None

    async def newest_messages(self, log: str, subjects: Sequence[str]) -> list[tuple[StoredMessage, dict[str, str]]]:
        """Return the newest message under each of these subjects, with its headers."""
        remaining, found = list(subjects), []
        while remaining:
            requested = remaining[:_SUBJECTS_PER_REQUEST]
            replies = await self._get(log, {"multi_last": requested}, None)
            page = [(_stored_message(reply), parse_headers(reply.headers)) for reply in replies]
            found.extend(page)
            # the server truncates a large result; the subjects without a message are requested again
            done = {message.subject for message, _ in page} or set(requested)
            remaining = [subject for subject in remaining if subject not in done]
        return found

    async def offset_at(self, log: str, time: float) -> int:
        instant = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=round(max(time, 0.0) * 1e6))
        text = instant.isoformat(timespec="microseconds").replace("+00:00", "Z")
        found = await self._get_first(log, {"start_time": text, "next_by_subj": ANY_TOKENS}, None)
        return found.offset if found else (await self.span(log)).last + 1

    async def create_consumer(
        self, log: str, name: str, subjects: Sequence[str], config: dict[str, Any], deadline: float
    ) -> dict[str, Any]:
        """Create a consumer that the server holds in memory, for messages under `subjects` or all messages."""
        common = {"name": name, "filter_subjects": list(subjects) or None, "mem_storage": True, "num_replicas": 1}
        body = {"stream_name": log, "config": {**common, **config}, "action": "create"}
        return await self._connection.call_api(f"CONSUMER.CREATE.{log}.{name}", body, deadline=deadline)

    async def explain_no_responders(self, log: str, deadline: float) -> ThinwireError:
        """Return the error for a log that is not ready yet. Raise `UnknownLog` if the log does not exist."""
        await self._config(log, deadline)
        return BrokerRefused("the log is not ready yet: wait, or check the log file of the server", log=log)

    async def _config(self, name: str, deadline: float | None = None) -> dict[str, Any]:
        config: dict[str, Any] = (await self._info(name, None, deadline))["config"]
        if not config.get("allow_direct"):
            raise BrokerRefused("the stream of this log does not allow direct reads: set its allow_direct", log=name)
        return config

    async def _get_first(self, log: str, body: dict[str, Any], deadline: float | None) -> StoredMessage | None:
        replies = await self._get(log, body, deadline)
        return _stored_message(replies[0]) if replies else None

    async def _get(self, log: str, body: dict[str, Any], deadline: float | None) -> list[Reply]:
        """Read messages directly from the store, without a consumer."""
        check_log(log)
        connection = self._connection
        call_deadline = connection.deadline() if deadline is None else deadline
        subject, payload = f"$JS.API.DIRECT.GET.{log}", json.dumps(body, separators=(",", ":")).encode()

        async def attempt(timeout: float) -> list[Reply]:
            if "multi_last" in body:
                return await connection.request_many(subject, payload, timeout=timeout)
            return [await connection.request(subject, payload, timeout=timeout)]

        return _without_status(
            await connection.repeat(attempt, call_deadline, lambda: self.explain_no_responders(log, call_deadline)), log
        )


def _without_status(replies: list[Reply], log: str) -> list[Reply]:
    """Return the replies with messages. Raise `BrokerRefused` if the last reply has the status of an error."""
    status = parse_status(replies[-1].headers)
    if status in (_END_OF_BATCH, NOT_FOUND):
        return replies[:-1]
    if status:
        raise BrokerRefused((replies[-1].headers or b"").decode("utf-8", "replace").strip(), log=log)
    return replies


def _stored_message(reply: Reply) -> StoredMessage:
    fields = parse_headers(reply.headers)
    time = datetime.fromisoformat(fields["Nats-Time-Stamp"]).timestamp()
    return StoredMessage(int(fields["Nats-Sequence"]), fields["Nats-Subject"], reply.payload, time)


def check_log(log: str) -> None:
    """Raise `BadSubject` unless `log` is a valid name of a log."""
    if not _LOG.fullmatch(log):
        raise BadSubject("the name of a log has no dots, spaces, slashes or wildcards", log=log)


def _covers(pattern: str, other: str) -> bool:
    """Return whether `pattern` matches every subject that `other` matches."""
    if other.endswith(ANY_TOKENS) and not pattern.endswith(ANY_TOKENS):
        return False
    return matches(pattern, other)
