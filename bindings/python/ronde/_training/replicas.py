"""Compares tensors that all ranks should have alike, by hashes, and finds what differs.

A digest of all hashes says if anything differs. Only then the ranks exchange the hashes of each
tensor, and of a tensor that differs the values. Ranks that have joined take no part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ronde import _core
from ronde._calls.reduce_ops import Sum
from ronde._collectives import on_arrays
from ronde._job.process_sets import ProcessSet
from ronde._job.runtime import rank

Bytes = NDArray[np.uint8]
_TEXT = 1024  # bytes of a label that are sent
_BOUND = 1 << 62  # of the digests that int64 has room for


class Fact:
    """A tensor as ranks compare it: here an array, and a function that replaces its values.

    label: '"name" (type and shape)', for messages. form: the part of it that must be alike: names
    may differ where, as with Keras, each process counts its layers.
    """

    def __init__(self, name: str, array: Any, assign: Callable[[Any], Any] | None = None) -> None:
        self._array, self._assign = np.asarray(array), assign
        self.name, self.dtype = name, str(self._array.dtype)
        self.shape: Sequence[int] = self._array.shape
        self.form = f"{self.dtype}{list(self.shape)}"
        self.label = f'"{name}" ({self.form})'

    def memory(self) -> Any:
        """The values as `_core.fingerprints()` takes them; None: they are not compared."""
        return self.bytes()

    def bytes(self) -> Bytes | None:
        """The values in host memory; None: they are not compared."""
        if self._array.dtype.hasobject:
            return None
        return np.ascontiguousarray(self._array).reshape(-1).view(np.uint8)

    def item_bytes(self, data: Bytes) -> int:
        """The bytes of one element."""
        return data.size // max(int(np.prod(self.shape)), 1)

    def numbers(self, data: Bytes) -> list[Any]:
        """The elements that these bytes are."""
        return list(data.view(self._array.dtype).tolist())

    def write(self, data: Bytes) -> None:
        """Replaces all values."""
        assert self._assign is not None
        self._assign(data.view(self._array.dtype).reshape(self.shape))


class Hashes(NamedTuple):
    """The hashes of this rank's facts."""

    labels: list[str]
    forms: list[str]
    data: NDArray[np.uint64]

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> Hashes:
        """Hashes one after the other: their bytes may be copies of a device's."""
        labels: list[str] = []
        forms: list[str] = []

        def memories() -> Iterable[Any]:
            for fact in facts:
                labels.append(fact.label)
                forms.append(fact.form)
                yield fact.memory()

        data = _core.fingerprints(memories())
        return cls(labels, forms, data)

    def digest(self) -> int:
        """One hash of all."""
        return _hash(_core.fingerprints(["\n".join(self.forms).encode(), self.data]))

    def bounds(self) -> NDArray[np.int64]:
        """The digest, for a maximum over ranks. Those that have joined add zeros, the least."""
        digest = self.digest() >> 2
        return np.array([digest + 1, _BOUND - digest], np.int64)

    def keys(self) -> NDArray[np.uint64]:
        """A hash of each form that its rank has once: the k-th one of its kind has number k."""
        seen: Counter[str] = Counter()
        texts = []
        for form in self.forms:
            texts.append(f"{form} {seen[form]}".encode())
            seen[form] += 1
        return np.asarray(_core.fingerprints(texts))


def bounds_agree(most: NDArray[np.int64]) -> bool:
    """True if all ranks had the same digest, by the maximum over their bounds."""
    return bool(sum(most.tolist()) == _BOUND + 1)


class Difference(NamedTuple):
    """A tensor that ranks do not have alike; the same on all of them.

    ranks: those that differ from most; of two values that as many ranks have, the one that the
    lowest rank has counts. usual: the lowest rank that has the value of most. missing: some have
    no such tensor. holder: the lowest rank that has one.
    """

    key: int
    ranks: list[int]
    usual: int
    holder: int
    missing: bool


class Comparison(NamedTuple):
    """What ranks of a set have, as all of them know it. name: begins those of operations."""

    name: str
    process_set: ProcessSet
    ranks: list[int]  # that have not joined
    differences: list[Difference]
    places: dict[int, int]  # of this rank's facts, by their keys
    labels: list[str]

    def label(self, difference: Difference) -> str:
        """The tensor's label on the rank that has it, for all ranks. Collective."""
        at_holder = rank() == difference.holder
        text = self.labels[self.places[difference.key]].encode() if at_holder else b""
        sent = self._from(difference.holder, np.frombuffer(text[:_TEXT], np.uint8), _TEXT)
        return sent.tobytes().rstrip(b"\0").decode(errors="replace")

    def own(self, difference: Difference, facts: Iterable[Fact]) -> Fact:
        """This rank's tensor."""
        return next(islice(facts, self.places[difference.key], None))

    def usual_bytes(self, difference: Difference, fact: Fact) -> Bytes:
        """The values of most ranks. Collective; none lacks the tensor."""
        mine = fact.bytes()
        assert mine is not None
        return self._from(difference.usual, mine, mine.size)

    def first_element(self, difference: Difference, fact: Fact, usual: Bytes) -> str:
        """Says the values of the first element that differs. Collective."""
        mine = fact.bytes()
        assert mine is not None
        item = fact.item_bytes(mine)
        found = np.flatnonzero(mine != usual)[:1] // item
        place = found[0] + 1 if found.size else 0
        places = of_all_ranks(np.array([place], np.uint64), f"{self.name}.place", self.process_set)
        if not places.any():
            return "its values are alike again"
        at = int(places[places > 0].min()) - 1
        part = slice(at * item, (at + 1) * item)
        padded = np.zeros(-(-item // 8) * 8, np.uint8)
        padded[:item] = mine[part]
        name = f"{self.name}.values"
        every = of_all_ranks(padded.view(np.uint64), name, self.process_set).view(np.uint8)
        seen = {r: every[self.process_set.ranks.index(r), :item] for r in difference.ranks}
        said = ", ".join(f"{_number(fact, value)} on rank {r}" for r, value in seen.items())
        index = [int(i) for i in np.unravel_index(at, fact.shape)] if fact.shape else []
        element = f"element {index}" if index else "its value"
        return f"{element} is {_number(fact, usual[part])} on rank {difference.usual}, {said}"

    def _from(self, root: int, mine: Bytes, size: int) -> Bytes:
        """The root's bytes, by an allreduce, in which ranks that have joined may be missing."""
        given = np.zeros(size, np.uint8)
        if rank() == root:
            given[: mine.size] = mine
        name = f"{self.name}.bytes"
        return np.asarray(on_arrays.allreduce(given, name, Sum, process_set=self.process_set))


def compare(mine: Hashes, name: str, process_set: ProcessSet) -> Comparison | None:
    """Finds the tensors that differ; None: all are alike. Collective."""
    own = np.array([1, len(mine.data), mine.digest()], np.uint64)
    rows = of_all_ranks(own, name, process_set)
    here = np.flatnonzero(rows[:, 0])  # the others have joined
    if (rows[here] == rows[here[0]]).all():
        return None
    keys = mine.keys()
    padded = np.zeros((int(rows[here, 1].max()), 2), np.uint64)
    padded[: len(keys)] = np.stack([keys, mine.data], axis=1)
    every = of_all_ranks(padded, f"{name}.tensors", process_set)
    ranks = [process_set.ranks[place] for place in here]
    tables = [every[place, : int(rows[place, 1])] for place in here]
    found = [Difference(*one) for one in _core.replica_differences(ranks, tables)]
    places = {key: place for place, key in enumerate(keys.tolist())}
    return Comparison(name, process_set, ranks, found, places, mine.labels) if found else None


def said(difference: Difference, label: str) -> str:
    """Names the tensor, and the ranks that have another one or other values."""
    return _core.describe_difference(difference.ranks, difference.usual, difference.missing, label)


def of_all_ranks(mine: NDArray[np.uint64], name: str, process_set: ProcessSet) -> Any:
    """The arrays of all ranks of the set, in order; zeros of those that have joined."""
    table = np.zeros((process_set.size() or 1, *mine.shape), np.uint64)
    table[process_set.rank()] = mine
    summed = on_arrays.allreduce(table.view(np.int64), name, Sum, process_set=process_set)
    return np.asarray(summed).view(np.uint64)


def _number(fact: Fact, data: Bytes) -> str:
    """An element, and its bits: those of two NaNs may differ."""
    return f"{fact.numbers(data.copy())[0]!r} (0x{data[::-1].tobytes().hex()})"


def _hash(memory: Any) -> int:
    return int(_core.fingerprints([memory])[0])
