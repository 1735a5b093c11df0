"""Dictionary policies decide when the dictionary of a topic is kept, prolonged or replaced."""

from typing import TYPE_CHECKING

from thinwire.lazy import contents

if TYPE_CHECKING:
    from thinwire.dictionaries.policies.cost_based import CostBased
    from thinwire.dictionaries.policies.policy import DictionaryPolicy, Keep, Prolong, Proposal, Reasons, Replace
else:
    __getattr__, __dir__ = contents(
        __name__,
        {"cost_based": "CostBased", "policy": "Keep DictionaryPolicy Prolong Proposal Replace Reasons"},
    )

__all__ = ["CostBased", "DictionaryPolicy", "Keep", "Prolong", "Proposal", "Reasons", "Replace"]
