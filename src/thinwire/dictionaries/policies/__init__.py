"""Looking after dictionaries: when to keep, prolong or replace the one of a topic. One way, one file."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.dictionaries.policies.adaptive import Adaptive
    from thinwire.dictionaries.policies.cost_based import CostBased
    from thinwire.dictionaries.policies.fixed_rate import FixedRate
    from thinwire.dictionaries.policies.policy import Keep, Policy, Prolong, Proposal, Replace, Why
    from thinwire.dictionaries.policies.predict import Predict
    from thinwire.dictionaries.policies.single import SingleDict
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "adaptive": "Adaptive",
            "cost_based": "CostBased",
            "fixed_rate": "FixedRate",
            "policy": "Keep Policy Prolong Proposal Replace Why",
            "predict": "Predict",
            "single": "SingleDict",
        },
    )

__all__ = [
    "Adaptive",
    "CostBased",
    "FixedRate",
    "Keep",
    "Policy",
    "Predict",
    "Prolong",
    "Proposal",
    "Replace",
    "SingleDict",
    "Why",
]
