"""Interpretations of CooperativeMove with an upper filter shared by several thresholds. Each of them fails.

The published algorithm aligns the upper filter with "the" edge of the one below. With two below there are two edges.
"""

RADIUS = 3


def _edge(child, x):
    """Return the edge of a lower filter that is within the upper radius of x."""
    edges = [child["z"] - child["c"], child["z"] + child["c"]]
    return next((edge for edge in edges if abs(x - edge) <= RADIUS), None)


def _offer(child, x):
    if abs(x - child["z"]) > child["c"]:
        child["z"] = x
        child["got"].append(x)


def first_in_zone(children, y, x):
    """The first filter whose zone contains x aligns the upper one; no filter receives x."""
    for child in children:
        if (edge := _edge(child, x)) is not None:
            return edge
    return basic(children, y, x)


def one_after_the_other(children, y, x):
    """The algorithm as printed, for each filter below, on the one upper state."""
    for child in children:
        if (edge := _edge(child, x)) is not None:
            y = edge
        elif abs(x - y) > RADIUS:
            y = x
            _offer(child, x)
    return y


def basic(children, y, x):
    """No alignment at all."""
    if abs(x - y) <= RADIUS:
        return y
    for child in children:
        _offer(child, x)
    return x


def if_all_in_zone(children, y, x):
    """Aligned only where x is in the zone of every filter below."""
    edges = [_edge(child, x) for child in children]
    return basic(children, y, x) if None in edges else edges[0]


def blocked(choose):
    """Filters whose zone x is in do not see it, the others by the old upper state; then it goes to the chosen edge."""

    def move(children, y, x):
        edges = [(child["c"], _edge(child, x)) for child in children]
        if abs(x - y) > RADIUS:
            for child, (_, edge) in zip(children, edges, strict=True):
                if edge is None:
                    _offer(child, x)
            y = x
        near = [(radius, edge) for radius, edge in edges if edge is not None]
        return choose(near, x) if near else y

    return move


READINGS = {
    "V1": first_in_zone,
    "V2": one_after_the_other,
    "V3 last": blocked(lambda near, x: near[-1][1]),
    "V3 nearest": blocked(lambda near, x: min(near, key=lambda pair: abs(x - pair[1]))[1]),
    "V3 smallest": blocked(lambda near, x: min(near)[1]),
    "V3 farthest": blocked(lambda near, x: max(near, key=lambda pair: abs(x - pair[1]))[1]),
    "V4": if_all_in_zone,
}


def delivered(reading, radii, stream):
    """What filters of these radii below one of radius 3 deliver; all begin at the first value."""
    children = [{"c": radius, "z": stream[0], "got": []} for radius in radii]
    y = stream[0]
    for x in stream[1:]:
        y = READINGS[reading](children, y, x)
    return [child["got"] for child in children]
