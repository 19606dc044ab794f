"""Checks at the first step that all ranks train the same parameters.

Ranks that forgot to broadcast them train different models, and nothing else tells. One small
allreduce compares hashes; further ones find the tensor, only where they differ.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable

from ronde._errors import MismatchError
from ronde._job.process_sets import ProcessSet
from ronde._job.runtime import rank, runtime
from ronde._membership import epochs
from ronde._training.replicas import Fact, Hashes, compare, said

_SETTING = "RONDE_CHECK_FIRST_STEP"
_one_thread = threading.Lock()  # the names of operations are in use until they end


class FirstStep:
    """The check of the ranks that average gradients together, which is made once."""

    def __init__(self, process_set: ProcessSet, remedy: str, calls: int = 1) -> None:
        """remedy: a clause that says how ranks become alike. calls: the check is made in this one.

        Scripts for TensorFlow broadcast after their first step, so theirs is the second.
        """
        self._process_set, self._remedy = process_set, remedy
        self._left = calls

    @property
    def pending(self) -> bool:
        """True until the check was made."""
        return self._left > 0

    def check(self, facts: Callable[[], Iterable[Fact]]) -> None:
        """Compares the tensors over ranks, before they are changed. Collective.

        Warns on one rank if they differ, or raises MismatchError on all. Ranks that have joined
        take no part.
        """
        self._left -= 1
        if self._left or not self._is_due() or (mode := _mode()) == "off":
            return
        with _one_thread:
            found = compare(Hashes.of(facts()), "first_step", self._process_set)
            if found is None:
                return
            first = found.differences[0]
            difference = said(first, found.label(first))
        text = (
            f"the ranks train different models: parameter {difference}; {self._remedy} before "
            f"training ({_SETTING}=off omits this check)"
        )
        if mode == "error":
            raise MismatchError(text)
        if rank() == found.ranks[0]:
            warnings.warn(text, stacklevel=4)

    def _is_due(self) -> bool:
        """False where a rank is alone. Later ranks of an elastic job get their state by sync()."""
        several = (self._process_set.size() or 1) > 1 and self._process_set.included()
        place = epochs.place()
        return bool(several) and (place is None or place.epoch <= 1)


def _mode() -> str:
    """Returns "warn", "error" or "off"."""
    return runtime().setting(_SETTING)
