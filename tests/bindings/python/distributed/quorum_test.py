"""Who may go on after a failure where no launcher decides it."""

from itertools import product

import pytest

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)
from ronde.torch.distributed._quorum import refusal


@pytest.mark.parametrize(
    ("size", "survivors", "dead"),
    [
        (4, [0, 1, 2], []),  # a majority
        (4, [1, 2, 3], []),
        (4, [2], [0, 1, 3]),  # all others are proven dead
        (4, [1, 3], [0]),  # two of three
        (4, [0, 2], []),  # half, with the lowest
        (3, [1], [0]),  # one of two, and the lowest that lives
        (2, [0], []),
        (2, [1], [0]),
    ],
)
def test_a_majority_and_half_with_the_lowest_rank_go_on(size, survivors, dead):
    assert refusal(size, survivors, dead) == ""


@pytest.mark.parametrize(
    ("size", "survivors", "dead", "why"),
    [
        (4, [0], [], "ranks [0] may not go on: they are 1 of the 4 ranks that may be alive."),
        (4, [2, 3], [], "2 of the 4 ranks that may be alive, without rank 0."),
        (4, [3], [0, 1], "1 of the 2 ranks that may be alive (2 of 4 are proven dead), without"),
        (2, [1], [], "Allowed: a majority, or half of them with the lowest rank"),
    ],
)
def test_a_refusal_says_what_lacks(size, survivors, dead, why):
    assert why in refusal(size, survivors, dead)


@pytest.mark.parametrize("size", range(1, 6))
def test_two_sides_never_both_go_on_whatever_deaths_each_knows(size):
    """All ways to lay the ranks on two sides or among the dead, of which each side knows some."""
    both, one = 0, 0
    for places in product("STD", repeat=size):
        side, other, dead = ([r for r, at in enumerate(places) if at == c] for c in "STD")
        if not side or not other:
            continue
        for known in product(range(4), repeat=len(dead)):
            here = [rank for rank, bits in zip(dead, known) if bits & 1]
            there = [rank for rank, bits in zip(dead, known) if bits & 2]
            first, second = refusal(size, side, here), refusal(size, other, there)
            both += first == second == ""
            one += "" in (first, second)
    assert both == 0
    assert one > 0 or size == 1


def test_the_whole_rest_goes_on_where_all_deaths_are_proven():
    for size in range(1, 6):
        for places in product("SD", repeat=size):
            side, dead = ([r for r, at in enumerate(places) if at == c] for c in "SD")
            if side:
                assert refusal(size, side, dead) == ""
