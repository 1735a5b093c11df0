"""Every broker implements `thinwire.brokers.protocol`, also under faults."""

import asyncio
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from broker_checks import CHECKS, run
from broker_checks.check_site import LocalSite

ROOT = Path(__file__).parents[2]
each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@pytest.fixture(scope="module")
def nats_server():
    if find_spec("nats") is None:
        pytest.skip("the extra nats is not installed")
    from thinwire.brokers.embedded import EmbeddedServer

    with EmbeddedServer() as server:
        yield server


@each_check
def test_local(check):
    asyncio.run(run(check, LocalSite()))


@each_check
def test_nats(check, nats_server):
    from broker_checks.nats_site import NatsSite

    asyncio.run(run(check, NatsSite(nats_server)))


def test_page_names_existing_checks_and_tests():
    page = (ROOT / "docs" / "delivery.md").read_text()
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("*/test_*.py"))
    checks = {check.__name__ for check in CHECKS}
    named = set(re.findall(r"`((?:check|test)_\w+)`", page))
    assert named <= checks | set(re.findall(r"def (test_\w+)", tests))
    assert checks <= named | {"check_logs"}
