"""The rule that decides if survivors may go on without a launcher that decides it.

Two sides of a broken network must never both go on. Each side knows its own ranks, and only such
deaths as are proven. Those sets differ between the sides; the rule is safe nevertheless. Let two
disjoint sides S and T know the deaths D and E, of n ranks. Neither side has a rank of D or E, so
|S| + |T| <= n - |D + E|. If both go on, 2|S| >= n - |D| and 2|T| >= n - |E|. So both are equal
to half, and D = E. Then only one of them has the lowest rank that is not proven dead.
"""

from __future__ import annotations

from collections.abc import Iterable


def refusal(size: int, survivors: Iterable[int], dead: Iterable[int]) -> str:
    """The reason why `survivors` of a group of `size` ranks may not go on; empty if they may.

    survivors: ranks of that group that would go on. dead: its ranks that are proven dead.
    """
    staying = set(survivors)
    living = set(range(size)) - set(dead)
    if 2 * len(staying) > len(living):
        return ""
    if 2 * len(staying) == len(living) and min(living) in staying:
        return ""
    proof = f" ({size - len(living)} of {size} are proven dead)" if len(living) < size else ""
    lowest = f", without rank {min(living)}" if 2 * len(staying) == len(living) else ""
    return (
        f"ranks {sorted(staying)} may not go on: they are {len(staying)} of the {len(living)} "
        f"ranks that may be alive{proof}{lowest}. Allowed: a majority, or half of them with the "
        "lowest rank"
    )
