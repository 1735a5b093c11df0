"""How numbers of a demonstration are written."""

from __future__ import annotations

from thinwire.ledger import Histogram


def size(count: int) -> str:
    """
    >>> size(812), size(41_288), size(671_700), size(5_264_000)
    ('812 B', '41.3 kB', '672 kB', '5.3 MB')
    """
    for unit, one in (("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.{0 if count >= 100 * one else 1}f} {unit}"
    return f"{count} B"


def percent(share: float | None) -> str:
    """
    >>> percent(0.99254), percent(1.0), percent(None)
    ('99.25 %', '100 %', '-')
    """
    return "-" if share is None else f"{hundredth(share)} %"


def amount(one: float, count: int) -> str:
    """
    >>> amount(1e6, 7_902_311), amount(1e6, 61_004), amount(1e3, 56_912), amount(1e3, 1_204_912)
    ('7.9', '0.06', '56.9', '1,205')
    """
    units = count / one
    return f"{units:,.0f}" if units >= 100 else f"{units:.{1 if units >= 1 else 2}f}"


def hundredth(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.4g}"


def tenths(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def milliseconds(spread: Histogram) -> str:
    middle, high = (spread.quantile(share) for share in (0.5, 0.99))
    return "-" if middle is None or high is None else f"{1e3 * middle:.0f}/{1e3 * high:.0f}"
