"""The checker compares values of every kind with their bounds."""

import pytest

from thinwire.codec import Demand
from thinwire.schema import Event, Property, Schema
from thinwire.testing import GuaranteeChecker

CARS = Schema(
    "cars",
    [
        Property("car", "string", "dimension"),
        Property("wheels", "array", step="0.1"),
        Property("place", "geo"),
    ],
)
SENT = {"car": "a", "wheels": [2.0, 2.1], "place": (52.5, 13.4)}


@pytest.mark.parametrize(
    ("delivered", "broken"),
    [
        ({}, 0),
        ({"wheels": [2.4, 2.1], "place": (52.50001, 13.4)}, 0),
        ({"wheels": [2.0, 2.7]}, 1),
        ({"wheels": [2.0]}, 1),
        ({"wheels": None, "place": (52.6, 13.4)}, 2),
    ],
)
def test_positions_and_arrays_have_distances(delivered, broken):
    checker = GuaranteeChecker(CARS, Demand({"wheels": 0.5, "place": 10.0}))
    checker.sent(SENT)
    bound = {"wheels": 0.5, "place": 10.0}
    checker.delivered(Event({**SENT, **delivered}, bound=bound, source=("a",), ordinal=1))
    assert (checker.checked, checker.broken) == (1, broken)
