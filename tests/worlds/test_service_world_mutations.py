"""The service world detects a product without one of its safeguards, so its checks can fail."""

from unittest.mock import patch

import pytest
from service_world import ServiceWorld

from thinwire.topics.delivery_dedup import DeliveryDedup
from thinwire.topics.fenced_writer import ATTEMPT_TIMEOUT, FencedWriter
from thinwire.topics.log_decoder import ChannelDecoder

MAX_SEEDS = 60


async def store_without_condition(self, subject, payload, *, fenced):
    return await self.broker.append(self.log, subject, payload, timeout=ATTEMPT_TIMEOUT)


async def accept_any_predecessor(self, offset):
    """Ignore messages of another writer."""


def decode_any_epoch(self, stored, now, decode=ChannelDecoder.decode):
    self._epochs.clear()
    return decode(self, stored, now)


def drop_nothing(self, publisher, offset, events, *, complete=True):
    return events, []


MUTATIONS = {
    "fencing": (FencedWriter, {"_store": store_without_condition, "_check_predecessor": accept_any_predecessor}),
    "epochs": (ChannelDecoder, {"decode": decode_any_epoch}),
    "deduplication": (DeliveryDedup, {"drop_delivered": drop_nothing}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("safeguard", "first"), [("fencing", 23), ("epochs", 5), ("deduplication", 2)])
def test_a_missing_safeguard_is_detected(safeguard, first):
    """Seeds are tried beginning with one that is known to detect it."""
    owner, replacements = MUTATIONS[safeguard]
    with patch.multiple(owner, **replacements):
        assert any(ServiceWorld(seed).run().violations for seed in range(first, first + MAX_SEEDS))
