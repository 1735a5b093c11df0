"""Dictionary policies decide when the dictionary of a topic is kept, prolonged or replaced."""

from thinwire.dictionaries.policies.cost_based import CostBased
from thinwire.dictionaries.policies.policy import DictionaryPolicy, Keep, Prolong, Proposal, Reasons, Replace

__all__ = ["CostBased", "DictionaryPolicy", "Keep", "Prolong", "Proposal", "Reasons", "Replace"]
