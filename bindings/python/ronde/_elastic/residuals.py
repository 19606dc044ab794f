"""Residuals of compression as a part of a state: what this rank has not delivered yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ronde._job.runtime import is_initialized, runtime
from ronde._snapshots.array_kinds import clone

_GLOBAL_SET = 0

# (tensor, steps, values) of each residual of the global process set. Those of other sets stay with
# the runtime: the sets may have other numbers in the next epoch.
Residuals = list[tuple[str, int, Any]]


def _live() -> Residuals:
    saved = runtime().save_residuals() if is_initialized() else []
    return [(name, steps, values) for number, name, steps, values in saved if not number]


class ResidualKeeper:
    """Takes the residuals into copies, and gives the next epoch those that are to go on."""

    def __init__(self) -> None:
        """Has nothing for the next epoch."""
        self._next: Residuals | None = None

    def take(self, keep: Callable[[Any], Any]) -> Residuals:
        """A copy of the residuals."""
        self._next = None
        return [(name, steps, keep(values)) for name, steps, values in _live()]

    def put(self, residuals: Residuals) -> None:
        """The next epoch begins with these."""
        self._next = [(name, steps, clone(values)) for name, steps, values in residuals]

    def steps(self) -> int:
        """The most steps of any that the epoch begins with."""
        residuals = _live() if self._next is None else self._next
        return max((steps for _, steps, _ in residuals), default=0)

    def add(self, residuals: Residuals) -> list[str]:
        """Adds those of a rank that has died, so that their sum stays.

        Returns the tensors of which this rank has a residual of another size.
        """
        residuals_here = _live() if self._next is None else self._next
        mine = {name: (steps, values) for name, steps, values in residuals_here}
        unfit = []
        for name, steps, values in residuals:
            if name not in mine:
                mine[name] = (steps, values)
            elif mine[name][1].shape != values.shape:
                unfit.append(name)
            else:
                mine[name] = (mine[name][0], mine[name][1] + values)
        self._next = [(name, *one) for name, one in mine.items()]
        return unfit

    def begin(self, steps: int) -> None:
        """Loads what was put, at the beginning of an epoch.

        steps: the same on all ranks, as codecs that draw random numbers need it.
        """
        if self._next is not None:
            others = [one for one in runtime().save_residuals() if one[0]]
            mine = [(_GLOBAL_SET, name, steps, values) for name, _, values in self._next]
            runtime().load_residuals([*others, *mine])
        self._next = None
