"""A recipe: every parameter of a workload; together with a summary and nothing else it decides every row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from thinwire.errors import ConfigError
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.interests.interests_correlation import correlations
from thinwire_lab.workload.interests.transformations import diffuse
from thinwire_lab.workload.interests.transformations_generalisation import raise_share, raise_shared
from thinwire_lab.workload.interests.transformations_intervals import check_noise
from thinwire_lab.workload.interests.transformations_removal import remove_hot
from thinwire_lab.workload.places.network_nodes import MAX_BROKERS
from thinwire_lab.workload.places.network_nodes_locations import Way, check_way
from thinwire_lab.workload.subscription_sample import MAX_ROWS, Sampling

Generalisation = Literal["none", "share", "shared"]
"""none: base interests only; share: a fraction of each rises; shared: what children have in common rises"""


@dataclass(frozen=True)
class Recipe:
    """What to draw.

    remove_hot: how many of the most popular interests to leave out
    diffusion: p, from 1, as they are, to 0, all alike
    generalise, fraction: whether and how many subscribers want more than a base interest
    noise: how far corners of rectangles are moved, in halves of the sides
    location, spread: how subscribers are placed
    sampling, strata: how interests are drawn
    bandwidth: how far events reach into the gaps
    """

    subscriptions: int = 100_000
    events: int = 100_000
    brokers: int = 100
    seed: int = 0
    remove_hot: int = 0
    diffusion: float = 1.0
    generalise: Generalisation = "share"
    fraction: float = 0.1
    noise: float = 0.0
    location: Way = "near"
    spread: float = 2.0
    sampling: Sampling = "stratified"
    strata: int = 10
    bandwidth: float = 0.5

    def __post_init__(self) -> None:
        _within("subscriptions", self.subscriptions, MAX_ROWS)
        _within("events", self.events, MAX_ROWS)
        _within("brokers", self.brokers, MAX_BROKERS)
        _within("seed", self.seed, 2**63 - 1)
        _within("diffusion", self.diffusion, 1)
        _within("fraction", self.fraction, 1)
        _known("generalise", self.generalise, get_args(Generalisation))
        _known("sampling", self.sampling, get_args(Sampling))
        check_noise(self.noise)
        check_way(self.location, self.spread)

    def stages(self, members: Interests) -> Iterator[Stage]:
        """The interests as they are, and after each step that the recipe asks for."""
        yield Stage("as they are", members)
        if self.remove_hot:
            members = remove_hot(members, self.remove_hot)
            yield Stage("hot interests removed", members)
        if self.diffusion < 1.0:
            members = diffuse(members, self.diffusion)
            yield Stage("diffused", members)
        if self.generalise != "none" and self.fraction:
            raised = raise_share if self.generalise == "share" else raise_shared
            yield Stage("generalised", raised(members, self.fraction))


class Stage(NamedTuple):
    """The interests after a step."""

    step: str
    interests: Interests

    def facts(self) -> dict[str, object]:
        """How many subscribers there are, where, and what interests tell about places, in bits."""
        found = self.interests
        mix = dict(zip(found.regions, found.mix.tolist(), strict=True))
        return {
            "step": self.step,
            "subscribers": float(found.counts.sum()),
            "interests": int((found.popularity > 0).sum()),
            "regions": mix,
            "bits_about_region": correlations(found),
        }


def _within(name: str, value: float, highest: float) -> None:
    if not 0 <= value <= highest:
        raise ConfigError("outside its limits", field=name, value=value, lowest=0, highest=highest)


def _known(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError("no such choice", field=name, value=value, known=list(choices))
