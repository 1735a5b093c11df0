"""Training of the taxi city model on Spark, from the updates that leave the edge (`thinwire train-edge --with`)."""

from __future__ import annotations

from typing import Any


def usual(updates: Any) -> dict[str, float]:
    """Return the usual speed of every region, the median of a DataFrame of updates."""
    speeds = updates.selectExpr(
        "get_json_object(cast(body as string), '$.region') as region",
        "cast(get_json_object(cast(body as string), '$.speed') as double) as speed",
    )
    medians = speeds.groupBy("region").agg({"speed": "median"}).collect()
    return {row[0]: round(row[1], 1) for row in medians}
