"""Tests of programs that use thinwire: virtual time, faults at given times, and a check of what is delivered.

The broker for tests is `memory://name`; see `thinwire.brokers.memory`.
"""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.testing.fault_script import (
        At,
        Fault,
        FaultScript,
        SimulatedProcess,
        disconnect,
        draw_faults,
        kill,
        lose_acknowledgements,
        outage,
        pause,
        redeliver,
    )
    from thinwire.testing.guarantee_checker import GuaranteeChecker
    from thinwire.testing.virtual_time import PauseSwitch, VirtualTimeLoop, run
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "fault_script": "At Fault FaultScript SimulatedProcess disconnect draw_faults kill lose_acknowledgements "
            "outage pause redeliver",
            "guarantee_checker": "GuaranteeChecker",
            "virtual_time": "PauseSwitch VirtualTimeLoop run",
        },
    )

__all__ = [
    "At",
    "Fault",
    "FaultScript",
    "GuaranteeChecker",
    "PauseSwitch",
    "SimulatedProcess",
    "VirtualTimeLoop",
    "disconnect",
    "draw_faults",
    "kill",
    "lose_acknowledgements",
    "outage",
    "pause",
    "redeliver",
    "run",
]
