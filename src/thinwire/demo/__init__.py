"""The whole system on one machine, for people to watch: every part a process of its own, every event checked."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.demo.demo_run import MAX_RATE, Show
    from thinwire.demo.demo_scenario import GUESTS, PLANTS, Guest, rehearse
    from thinwire.demo.view_model import ChannelView, DemoView, Phase, SubscriberView, TableView, Translating
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "demo_run": "MAX_RATE Show",
            "demo_scenario": "GUESTS Guest PLANTS rehearse",
            "view_model": "ChannelView DemoView Phase SubscriberView TableView Translating",
        },
    )

__all__ = [
    "GUESTS",
    "MAX_RATE",
    "PLANTS",
    "ChannelView",
    "DemoView",
    "Guest",
    "Phase",
    "Show",
    "SubscriberView",
    "TableView",
    "Translating",
    "rehearse",
]
