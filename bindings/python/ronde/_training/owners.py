"""Deals what ranks share out to owners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def owners(costs: Sequence[int], ranks: int) -> list[int]:
    """The place of the rank that owns each item: the largest first, to whoever has least."""
    loads, chosen = [0] * ranks, [0] * len(costs)
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        place = loads.index(min(loads))
        chosen[item] = place
        loads[place] += costs[item]
    return chosen


def of_one_rank(variable: Any) -> bool:
    """True for state that no other rank has."""
    return getattr(variable, "is_of_one_rank", False)
