"""Dictionary policies of the thesis, one a file.

Importing this package registers them, so that a dictionary trainer accepts their names.

>>> from thinwire.dictionaries.policies.policy_catalogue import create_policy
>>> from thinwire.dictionaries.topology import Topology
>>> create_policy("single", Topology()).name
'single'
"""

from thinwire.dictionaries.policies.policy_catalogue import register_policy
from thinwire_lab.reproduce.dictionaries.policies.adaptive import Adaptive
from thinwire_lab.reproduce.dictionaries.policies.fixed_rate import FixedRate
from thinwire_lab.reproduce.dictionaries.policies.predict import Predict
from thinwire_lab.reproduce.dictionaries.policies.single import SingleDict

__all__ = ["Adaptive", "FixedRate", "Predict", "SingleDict"]

register_policy(SingleDict.name, lambda topology, budget: SingleDict())
register_policy(FixedRate.name, lambda topology, budget: FixedRate())
register_policy(Adaptive.name, lambda topology, budget: Adaptive())
register_policy(Predict.name, lambda topology, budget: Predict(topology))
