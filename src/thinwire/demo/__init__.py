"""The whole system on one machine, for people to watch: every part a process of its own, every event checked."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.demo.demo_run import MAX_RATE, Show
    from thinwire.demo.demo_scenario import GUESTS, Guest
    from thinwire.demo.demo_scenario_plants import PLANTS, rehearse
    from thinwire.demo.view_model import Channel, Translating
    from thinwire.demo.view_model_landings import Landing
    from thinwire.demo.view_model_seats import Phase, Seat
    from thinwire.demo.view_model_views import View
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "demo_run": "MAX_RATE Show",
            "demo_scenario": "GUESTS Guest",
            "demo_scenario_plants": "PLANTS rehearse",
            "view_model": "Channel Translating",
            "view_model_landings": "Landing",
            "view_model_seats": "Phase Seat",
            "view_model_views": "View",
        },
    )

__all__ = [
    "GUESTS",
    "MAX_RATE",
    "PLANTS",
    "Channel",
    "Guest",
    "Landing",
    "Phase",
    "Seat",
    "Show",
    "Translating",
    "View",
    "rehearse",
]
