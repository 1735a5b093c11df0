"""Groups the subscriptions of a topic by equal demands: a hundred thousand subscriptions may have a thousand demands.

>>> from thinwire.topics.demand_class import DemandClass
>>> index = DemandIndex(lambda document: str(document.tolerance), DemandClass.of)
>>> for number, t in enumerate((0.5, 1, 0.5)):
...     index.update(f"s{number}", SubscriptionDocument("rooms", f"s{number}", {"t": t}, since=9.0 - number))
>>> [(group.oldest.identity, group.value.tolerance) for group in index.groups()]
[('s2', {'t': 0.5}), ('s1', {'t': 1})]
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from thinwire.topics.topic_documents import SubscriptionDocument

V = TypeVar("V")


@dataclass(slots=True)
class DemandGroup(Generic[V]):
    """Subscriptions with equal demands.

    value: computed from one document of the group
    oldest: the oldest subscription of the group
    """

    key: str
    value: V
    oldest: SubscriptionDocument
    members: dict[str, SubscriptionDocument] = field(default_factory=dict)


class DemandIndex(Generic[V]):
    """Subscriptions by demand.

    key_of: returns equal texts for equal demands
    create: computes the value of a new group; called once per group because it may be expensive
    changed: a group was added or removed, or the oldest subscription of a group is another one
    """

    def __init__(
        self, key_of: Callable[[SubscriptionDocument], str], create: Callable[[SubscriptionDocument], V]
    ) -> None:
        self.changed = False
        self._key_of = key_of
        self._create = create
        self._group_of: dict[str, DemandGroup[V]] = {}
        self._groups: dict[str, DemandGroup[V]] = {}

    @property
    def identities(self) -> Set[str]:
        """The identities of all subscriptions."""
        return self._group_of.keys()

    def groups(self) -> list[DemandGroup[V]]:
        """Return all groups."""
        return list(self._groups.values())

    def update(self, identity: str, document: SubscriptionDocument | None) -> None:
        """Set the document of a subscription; None removes it."""
        group = self._group_of.get(identity)
        if group is not None and group.members[identity] is document:
            return
        if group is not None:
            self._remove(identity, group)
        if document is not None:
            self._add(identity, document)

    def _add(self, identity: str, document: SubscriptionDocument) -> None:
        key = self._key_of(document)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = DemandGroup(key, self._create(document), document)
            self.changed = True
        group.members[identity] = document
        self._group_of[identity] = group
        if _age(document) < _age(group.oldest):
            group.oldest, self.changed = document, True

    def _remove(self, identity: str, group: DemandGroup[V]) -> None:
        document = group.members.pop(identity)
        del self._group_of[identity]
        if not group.members:
            del self._groups[group.key]
            self.changed = True
        elif group.oldest is document:
            group.oldest, self.changed = min(group.members.values(), key=_age), True


def _age(document: SubscriptionDocument) -> tuple[float, str]:
    return document.since, document.identity
