"""Checks at the first step that all ranks train the same parameters.

Ranks that forgot to broadcast them train different models, and nothing else tells. One small
allreduce compares hashes; a second one finds the tensor, only where they differ.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ronde import _core
from ronde._calls.reduce_ops import Sum
from ronde._collectives import on_arrays
from ronde._errors import MismatchError
from ronde._job.process_sets import ProcessSet
from ronde._job.runtime import rank, runtime
from ronde._membership import epochs

_SETTING = "RONDE_CHECK_FIRST_STEP"
_one_thread = threading.Lock()  # the names of operations are in use until they end


class Fact(NamedTuple):
    """A tensor as ranks compare it.

    label: '"name" (type and shape)', for messages. form: the part of it that must be alike. data:
    its bytes as an array; None: they are not compared.
    """

    label: str
    form: str
    data: Any


def fact(name: str, array: Any) -> Fact:
    """The fact of an array. Names may differ, as Keras counts the layers of each process."""
    held = np.asarray(array)
    form = f"{held.dtype}{list(held.shape)}"
    plain = not held.dtype.hasobject
    data = np.ascontiguousarray(held).reshape(-1).view(np.uint8) if plain else None
    return Fact(f'"{name}" ({form})', form, data)


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
            difference = _difference(facts(), self._process_set)
        if difference is None:
            return
        found, first = difference
        said = (
            f"the ranks train different models: {found}; {self._remedy} before training "
            f"({_SETTING}=off omits this check)"
        )
        if mode == "error":
            raise MismatchError(said)
        if rank() == first:
            warnings.warn(said, stacklevel=4)

    def _is_due(self) -> bool:
        """False where a rank is alone. Later ranks of an elastic job get their state by sync()."""
        several = (self._process_set.size() or 1) > 1 and self._process_set.included()
        place = epochs.place()
        return bool(several) and (place is None or place.epoch <= 1)


def _mode() -> str:
    """Returns "warn", "error" or "off"."""
    return runtime().setting(_SETTING)


def _difference(facts: Iterable[Fact], process_set: ProcessSet) -> tuple[str, int] | None:
    """(the first tensor that differs and where, the rank it is compared with); None: alike."""
    # One by one: the bytes may be copies of a device's.
    found = [(one.label, _hash(one.form.encode()), _hash(one.data)) for one in facts]
    hashes = np.array([pair for _, *pair in found], np.uint64).reshape(-1, 2)
    mine = np.array([1, len(found), _hash(hashes)], np.uint64)
    rows = _of_all_ranks(mine, "first_step", process_set)
    here = np.flatnonzero(rows[:, 0])  # the others have joined
    if (rows[here] == rows[here[0]]).all():
        return None
    padded = np.zeros((int(rows[here, 1].max()), 2), np.uint64)
    padded[: len(found)] = hashes
    every = _of_all_ranks(padded, "first_step.tensors", process_set)[here]
    ranks = [process_set.ranks[place] for place in here]
    number = int((every != every[0]).any(axis=(0, 2)).argmax())
    label = found[number][0] if number < len(found) else f"number {number}"
    return f"parameter {label} {_said(every[:, number], ranks)}", ranks[0]


def _said(hashes: NDArray[np.uint64], ranks: list[int]) -> str:
    """Names the ranks whose tensor has another form or other bytes, by their hashes."""
    differ = hashes != hashes[0]
    what = "tensor" if differ[:, 0].any() else "value"
    where = _listed([of for of, other in zip(ranks, differ.any(axis=1)) if other])
    return f"has another {what} on {where} than on rank {ranks[0]}"


def _hash(data: Any) -> int:
    return 0 if data is None else _core.fingerprint(data)


def _of_all_ranks(mine: NDArray[np.uint64], name: str, process_set: ProcessSet) -> Any:
    """The arrays of all ranks of the set, in order; zeros of those that have joined."""
    table = np.zeros((process_set.size() or 1, *mine.shape), np.uint64)
    table[process_set.rank()] = mine
    summed = on_arrays.allreduce(table.view(np.int64), name, Sum, process_set=process_set)
    return np.asarray(summed).view(np.uint64)


def _listed(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    return f"ranks {', '.join(map(str, ranks[:4]))}{more}"
