"""What the tests of live verbs share: a system that runs, and verbs as processes."""

import pytest
from verb_processes import running


@pytest.fixture(scope="session")
def url():
    """The URL of a broker with a registry, as `thinwire up` runs them."""
    with running("up", "--port", "0", "--json") as (_, line):
        yield line["url"]
