"""The demonstration behind `thinwire demo`: a complete system on one machine, in which every part is a process."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.demo.demo_run import MAX_RATE, ChannelView, Demo, DemoView, SubscriberView, open_demo
    from thinwire.demo.demo_scenario import PLANTS, SUBSCRIPTIONS, DemoSubscription, compile_kernels
    from thinwire.demo.spark_table import TableView
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "demo_run": "MAX_RATE ChannelView Demo DemoView SubscriberView open_demo",
            "demo_scenario": "PLANTS SUBSCRIPTIONS DemoSubscription compile_kernels",
            "spark_table": "TableView",
        },
    )

__all__ = [
    "MAX_RATE",
    "PLANTS",
    "SUBSCRIPTIONS",
    "ChannelView",
    "Demo",
    "DemoSubscription",
    "DemoView",
    "SubscriberView",
    "TableView",
    "compile_kernels",
    "open_demo",
]
