"""Hot-interest removal: a workload without its few most popular interests."""

from __future__ import annotations

import numpy as np

from thinwire.errors import ConfigError
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.random_rows_randomness import Rows


def remove_hot(interests: Interests, top: int) -> Interests:
    """The interests without the `top` most popular ones; of equals the first in the table goes first."""
    counts = interests.counts.copy()
    counts.reshape(-1, counts.shape[-1])[hottest(interests, top)] = 0.0
    return interests.changed(counts)


def hottest(interests: Interests, top: int) -> Rows:
    """The most popular interests, the first one first, as places in the counts with all hierarchies made one axis."""
    popularity = interests.popularity.ravel()
    there = int(np.count_nonzero(popularity))
    if not 0 <= top < max(there, 1):
        raise ConfigError("remove fewer interests than there are", remove_hot=top, interests=there)
    return np.argsort(-popularity, kind="stable")[:top].astype(np.int64)
