"""Two committed copies of a part of an elastic job's state.

A new copy is written over the older one, so that the newest stays whole until the new one is done.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

_Copy = Any


class TwoCopies:
    """The two newest copies of one part of a state.

    take(older): a copy of the live value, in the memory of `older` where it fits; None at first.
    put(copy): gives the live value the copy's; the copy stays as it is.
    """

    def __init__(self, take: Callable[[_Copy], _Copy], put: Callable[[_Copy], None]) -> None:
        """Holds no copy yet."""
        self._take, self.put = take, put
        self._newest: _Copy = None
        self._older: _Copy = None
        self._next: _Copy = None
        self._count = 0

    def fill(self) -> None:
        """Writes the next copy in place of the older one. It counts after turn()."""
        older, self._older = self._older, None
        self._count = min(self._count, 1)
        self._next = self._take(older)

    def turn(self) -> None:
        """Makes what fill() wrote the newest copy."""
        self._newest, self._older, self._next = self._next, self._newest, None
        self._count = min(self._count + 1, 2)

    def save(self) -> None:
        """Both."""
        self.fill()
        self.turn()

    @property
    def newest(self) -> Any:
        """The newest copy; None before the first."""
        return self._newest

    def restore(self) -> None:
        """Gives the live value the newest copy's."""
        if self._count > 0:
            self.put(self._newest)

    def restore_older(self) -> None:
        """The same with the older copy, which becomes the newest."""
        if self._count == 2:
            self._newest, self._older = self._older, self._newest
            self._count = 1
        self.restore()

    def restart(self) -> None:
        """Forgets both copies and makes one of the value as it is."""
        self._newest = self._older = None
        self._count = 0
        self.save()


def copied(value: Any) -> Any:
    """A copy of containers and arrays with all they contain; other objects themselves."""
    kind = type(value)
    if kind in (dict, OrderedDict):
        return kind((key, copied(item)) for key, item in value.items())
    if kind is defaultdict:
        return defaultdict(value.default_factory, {k: copied(v) for k, v in value.items()})
    if kind in (list, tuple, set, frozenset):
        return kind(copied(item) for item in value)
    if kind is deque:
        return deque((copied(item) for item in value), value.maxlen)
    if isinstance(value, (np.ndarray, bytearray)):
        return value.copy()
    return value


def copied_arrays(arrays: list[Any], older: list[Any] | None) -> list[Any]:
    """Copies of NumPy arrays, in the memory of older ones where they have the same form."""
    made = []
    for index, array in enumerate(arrays):
        target = older[index] if older is not None and index < len(older) else None
        if target is None or target.shape != array.shape or target.dtype != array.dtype:
            target = np.empty_like(array, order="C")
        np.copyto(target, array)
        made.append(target)
    return made
