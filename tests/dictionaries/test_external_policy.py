"""A dictionary policy defined outside of the package: registered by one line, then run by the dictionary trainer."""

import asyncio

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.codec import StreamEncoder
from thinwire.dictionaries import train
from thinwire.dictionaries.policies import Keep, Proposal, Replace
from thinwire.dictionaries.policies.policy import DictionaryPolicy
from thinwire.dictionaries.policies.policy_catalogue import create_policy, policy_names, register_policy
from thinwire.dictionaries.topology import Topology
from thinwire.errors import ConfigError
from thinwire.schema import opaque
from thinwire.services.dictionary_trainer.dictionary_service import DictionaryService
from thinwire.services.dictionary_trainer.topic_sampler import SamplerSettings
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES, data_subject, key_subject, log_of, publisher_subjects
from thinwire.topics.registry_client import open_registry, register_schema
from thinwire.topics.topic_settings import Settings
from thinwire.wire import begins_round

TOPIC = "notes"


class AfterMessages(DictionaryPolicy):
    """Trains one dictionary of 1 kB from the first `count` messages."""

    name = "after messages"

    def __init__(self, count: int = 50) -> None:
        self.count = count
        self._messages: list[bytes] = []
        self._done = False

    def offer(self, message: bytes) -> None:
        self._messages.append(message)

    def propose(self) -> Proposal:
        if self._done or len(self._messages) < self.count:
            return Keep()
        self._done = True
        return Replace(train(self._messages[: self.count], 1024), None, {"messages": self.count})


def create(topology: Topology, budget: float) -> AfterMessages:
    return AfterMessages()


register_policy(AfterMessages.name, create)


def note(n: int) -> bytes:
    return b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5, "state": "normal"}' % (n % 5, n % 7, n % 31)


async def publish(broker: LocalBroker) -> None:
    out = StreamEncoder(opaque(TOPIC), name="p", compiled=False)
    for frame in out.start(0.0) + [frame for n in range(60) for frame in out.send(note(n), 0.0)]:
        subject = (key_subject if begins_round(frame) else data_subject)(TOPIC, "p")
        await broker.append(log_of(TOPIC), subject, frame)


def test_the_trainer_runs_the_policy():
    async def run() -> None:
        broker = LocalBroker(LocalServer(), timeout=10)
        await register_schema(await open_registry(broker), opaque(TOPIC), Settings(retain=True, dictionaries=True))
        await broker.ensure_log(log_of(TOPIC), [publisher_subjects(TOPIC)])
        bucket = await broker.bucket(DICTIONARIES)
        settings = SamplerSettings(policy=AfterMessages.name, poll_interval=0.02)
        service = DictionaryService(broker, lease=0.4, settings=settings)
        task = asyncio.create_task(service.run())
        try:
            await service.ready()
            await publish(broker)
            while (active := await DictionaryMetadata(bucket, TOPIC).read_active()) is None or not active.dictionaries:
                await asyncio.sleep(0.02)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        dictionary = await DictionaryStore(bucket).get(active.dictionaries[0].hash_bytes)
        assert dictionary.facts.messages == 50
        await broker.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_names_are_unique():
    register_policy(AfterMessages.name, create)
    assert AfterMessages.name in policy_names()
    assert create_policy(AfterMessages.name, Topology()).name == AfterMessages.name
    with pytest.raises(ConfigError, match="another policy"):
        register_policy("ours", create)
