"""Dictionary policies: when to keep, prolong or replace the dictionary of a topic. One policy a file."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.dictionaries.policies.adaptive import Adaptive
    from thinwire.dictionaries.policies.cost_based import CostBased
    from thinwire.dictionaries.policies.fixed_rate import FixedRate
    from thinwire.dictionaries.policies.policy import DictionaryPolicy, Keep, Prolong, Proposal, Reasons, Replace
    from thinwire.dictionaries.policies.predict import Predict
    from thinwire.dictionaries.policies.single import SingleDict
else:
    __getattr__, __dir__ = contents(
        __name__,
        {
            "adaptive": "Adaptive",
            "cost_based": "CostBased",
            "fixed_rate": "FixedRate",
            "policy": "Keep DictionaryPolicy Prolong Proposal Replace Reasons",
            "predict": "Predict",
            "single": "SingleDict",
        },
    )

__all__ = [
    "Adaptive",
    "CostBased",
    "DictionaryPolicy",
    "FixedRate",
    "Keep",
    "Predict",
    "Prolong",
    "Proposal",
    "Reasons",
    "Replace",
    "SingleDict",
]
