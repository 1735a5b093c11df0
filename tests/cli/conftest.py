"""A running broker with a registry, shared by the tests of commands."""

import pytest
from verb_processes import running


@pytest.fixture(scope="session")
def url():
    """The URL of a broker with a registry, as `thinwire up` runs them."""
    with running("up", "--port", "0", "--json") as (_, line):
        yield line["url"]
