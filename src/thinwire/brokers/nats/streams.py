"""Looking into the logs: what there is, and single messages by subject, offset and time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from thinwire.brokers.nats.jetstream_api import (
    NAME_IN_USE,
    NO_STREAM,
    NOT_FOUND,
    Answer,
    JetStreamCaller,
    JetStreamRefusal,
    NobodyThere,
    Unanswered,
    fields_of,
    status_of,
)
from thinwire.brokers.protocol import Retention, Span, Stored
from thinwire.brokers.subjects import REST, check_pattern, is_literal, matches
from thinwire.errors import BadSubject, BrokerRefused, ConfigError, ThinwireError, UnknownLog

PREFIX = "tw_"
"""how the names of our logs begin"""
NANOSECONDS = 10**9
_EPOCH = datetime.fromtimestamp(0, UTC)
_END_OF_BATCH = 204
_AT_ONCE = 500
"""subjects in one question, the server's limit is 1024 answers"""
_LOG = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,250}")


class Store:
    """The logs of a server."""

    def __init__(self, connection: JetStreamCaller) -> None:
        self._connection = connection

    async def open_log(self, log: str, subjects: Sequence[str], retention: Retention) -> None:
        """Make the log unless there is one, which must keep these subjects."""
        check_log(log)
        for subject in subjects:
            check_pattern(subject)
        kept = {
            "max_age": round((retention.seconds or 0) * NANOSECONDS),
            "max_bytes": -1 if retention.size is None else retention.size,
            "max_msgs": -1 if retention.messages is None else retention.messages,
        }
        made = await self.make({"name": log, "subjects": list(subjects), "discard": "old", **kept})
        missing = [subject for subject in subjects if not any(_covers(has, subject) for has in made["subjects"])]
        if missing:
            raise ConfigError("the log exists and does not keep these subjects", log=log, missing=missing)

    async def make(self, config: dict[str, Any]) -> dict[str, Any]:
        """A stream that may be read directly, or the one that has the name; its configuration."""
        name = config["name"]
        try:
            return await self._config(name)
        except UnknownLog:
            pass
        asked = {"retention": "limits", "storage": "file", "num_replicas": 1, "allow_direct": True, **config}
        try:
            deadline = self._connection.deadline()
            made = await self._connection.api(f"STREAM.CREATE.{name}", asked, deadline=deadline)
        except JetStreamRefusal as refused:
            if refused.code != NAME_IN_USE:
                raise refused.translated(log=name) from None
            return await self._config(name)  # somebody was faster
        result: dict[str, Any] = made["config"]
        return result

    async def _config(self, name: str, deadline: float | None = None) -> dict[str, Any]:
        config: dict[str, Any] = (await self.info(name, deadline=deadline))["config"]
        if not config.get("allow_direct"):
            raise BrokerRefused("the stream was made by somebody else, without allow_direct", log=name)
        return config

    async def info(self, log: str, body: dict[str, Any] | None = None, deadline: float | None = None) -> dict[str, Any]:
        """What the server knows of a log."""
        check_log(log)
        limit = self._connection.deadline() if deadline is None else deadline
        try:
            return await self._connection.api(f"STREAM.INFO.{log}", body, deadline=limit)
        except JetStreamRefusal as refused:
            raise refused.translated(log=log) from None

    async def delete_log(self, log: str) -> None:
        check_log(log)
        try:
            await self._connection.api(f"STREAM.DELETE.{log}", deadline=self._connection.deadline())
        except JetStreamRefusal as refused:
            if refused.code != NO_STREAM:
                raise refused.translated(log=log) from None

    async def span(self, log: str) -> Span:
        info = await self.info(log)
        state, made = info["state"], str(info.get("created", ""))
        first, last = int(state["first_seq"]), int(state["last_seq"])
        return Span(max(first, 1), last, int(state["messages"]), int(state["bytes"]), made)

    async def subjects(self, log: str, pattern: str) -> dict[str, int]:
        check_pattern(pattern)
        found: dict[str, int] = {}
        while True:
            answer = await self.info(log, {"subjects_filter": pattern, "offset": len(found)})
            page = answer["state"].get("subjects") or {}
            found.update(page)
            if not page or len(found) >= int(answer.get("total", 0)):
                return found

    async def logs(self) -> list[str]:
        found: list[str] = []
        seen = 0
        while True:
            deadline = self._connection.deadline()
            answer = await self._connection.api("STREAM.NAMES", {"offset": seen}, deadline=deadline)
            page = answer.get("streams") or []
            seen += len(page)
            found.extend(name for name in page if name.startswith(PREFIX))
            if not page or seen >= int(answer["total"]):
                return sorted(found)

    async def last(
        self, log: str, pattern: str, up_to: int | None = None, deadline: float | None = None
    ) -> Stored | None:
        """The newest message under a pattern, at or before an offset where given."""
        check_pattern(pattern)
        newest = await self._first_of(log, {"last_by_subj": pattern}, deadline)
        if newest is None or up_to is None or newest.offset <= up_to:
            return newest  # an offset beyond the end of the log would find nothing below
        if up_to < 1:
            return None
        # The server answers for so many subjects and no more, so a pattern is asked as the subjects it stands for.
        subjects = [pattern] if is_literal(pattern) else list(await self.subjects(log, pattern))
        found: list[Stored] = []
        for place in range(0, len(subjects), _AT_ONCE):
            asked = {"multi_last": subjects[place : place + _AT_ONCE], "up_to_seq": up_to}
            found.extend(_stored(answer) for answer in await self._get(log, asked, deadline))
        return max(found, default=None)

    async def next_under(self, log: str, subject: str, first: int, deadline: float | None = None) -> Stored | None:
        """The first message under a pattern at or after an offset."""
        return await self._first_of(log, {"seq": first, "next_by_subj": subject}, deadline)

    async def get(self, log: str, subject: str) -> tuple[Stored, dict[str, str]] | None:
        """The newest message under a subject, with its headers."""
        found = await self._get(log, {"last_by_subj": subject}, None)
        return (_stored(found[0]), fields_of(found[0].headers)) if found else None

    async def newest(self, log: str, subjects: Sequence[str]) -> list[tuple[Stored, dict[str, str]]]:
        """The newest message under each of these subjects, with its headers, whatever they weigh together."""
        left, found = list(subjects), []
        while left:
            answers = await self._get(log, {"multi_last": left[:_AT_ONCE]}, None)
            page = [(_stored(answer), fields_of(answer.headers)) for answer in answers]
            found.extend(page)
            # the server ends an answer that grows too heavy; what is left out of a page is asked for again
            told = {message.subject for message, _ in page} or set(left[:_AT_ONCE])
            left = [subject for subject in left if subject not in told]
        return found

    async def offset_at(self, log: str, time: float) -> int:
        instant = _EPOCH + timedelta(microseconds=round(max(time, 0.0) * 1e6))
        text = instant.isoformat(timespec="microseconds").replace("+00:00", "Z")
        found = await self._first_of(log, {"start_time": text, "next_by_subj": REST}, None)
        return found.offset if found else (await self.span(log)).last + 1

    async def _first_of(self, log: str, body: dict[str, Any], deadline: float | None) -> Stored | None:
        found = await self._get(log, body, deadline)
        return _stored(found[0]) if found else None

    async def _get(self, log: str, body: dict[str, Any], deadline: float | None) -> list[Answer]:
        """Messages straight from the store: no consumer, no leader."""
        check_log(log)
        connection = self._connection
        limit = connection.deadline() if deadline is None else deadline
        payload = json.dumps(body, separators=(",", ":")).encode()
        many = "multi_last" in body
        reason: ThinwireError | None = None
        while True:
            await connection.still_time(limit, reason)
            subject = f"$JS.API.DIRECT.GET.{log}"
            try:
                if many:
                    answers = await connection.ask_many(subject, payload, patience=connection.attempt(limit))
                else:
                    answers = [await connection.ask(subject, payload, patience=connection.attempt(limit))]
            except Unanswered:
                continue
            except NobodyThere:
                await self._config(log, limit)  # an error if there is none; otherwise it is about to answer
                reason = BrokerRefused("the log does not answer yet", log=log)
                await connection.pause()
                continue
            return _messages(answers, log)


def _messages(answers: list[Answer], log: str) -> list[Answer]:
    status = status_of(answers[-1].headers)
    if status in (_END_OF_BATCH, NOT_FOUND):
        return answers[:-1]
    if status:
        raise BrokerRefused((answers[-1].headers or b"").decode("utf-8", "replace").strip(), log=log)
    return answers


def _stored(answer: Answer) -> Stored:
    fields = fields_of(answer.headers)
    time = datetime.fromisoformat(fields["Nats-Time-Stamp"]).timestamp()
    return Stored(int(fields["Nats-Sequence"]), fields["Nats-Subject"], answer.payload, time)


def check_log(log: str) -> None:
    """Refuse what cannot be the name of a log."""
    if not _LOG.fullmatch(log):
        raise BadSubject("the name of a log has no dots, spaces, slashes or wildcards", log=log)


def _covers(pattern: str, wanted: str) -> bool:
    """Does a pattern stand for everything another one stands for?"""
    if wanted.endswith(REST) and not pattern.endswith(REST):
        return False
    return matches(pattern, wanted)
