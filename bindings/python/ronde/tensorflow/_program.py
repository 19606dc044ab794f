"""What collectives the function being traced consists of, so that ranks can compare.

Kernels send it along: where a rank has traced another function than the rest, all of them get an
error at once that names the ranks, instead of a wait for operations that nobody else has.
"""

from __future__ import annotations

import itertools
import random
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ronde.tensorflow import _names

# From anywhere, as saved graphs keep the numbers of the process that traced them.
_numbers = itertools.count(random.SystemRandom().getrandbits(62))


class _Program:
    """The collectives of one traced function, by process set. Their order does not matter."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self._kinds: dict[int, Counter[str]] = {}
        self._sums: Counter[int] = Counter()

    def add(self, kind: str, names: Sequence[str], set_id: int) -> str:
        """Takes operations in; gives what the set's program then is, for people and to compare."""
        kinds = self._kinds.setdefault(set_id, Counter())
        kinds[kind] += len(names)
        self._sums[set_id] += sum(zlib.crc32(f"{kind} {name}".encode()) for name in names)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        return f"a function traced with {counts} ({self._sums[set_id] & 0xFFFFFFFF:08x})"


_programs: weakref.WeakKeyDictionary[Any, _Program] = weakref.WeakKeyDictionary()
_eager: dict[tuple[str, int], int] = {}  # the numbers of what was said in eager mode, by set


def note(
    tell: Callable[[int, int, bytes], object],
    kind: str,
    names: Sequence[str],
    set_id: int,
    said: str = "",
) -> int:
    """The number of the program that an operation belongs to; 0: of none.

    A function's, while it is being traced; in eager mode `said`. Operations in graphs of TensorFlow
    1 are of none, as sessions run parts of those.
    tell: takes the program's number, a process set, and what the program of the set is by now.
    """
    if tf.executing_eagerly():
        return _eager_number(tell, said, set_id) if said else 0
    graph = _names.function()
    if not hasattr(graph, "outer_graph"):
        return 0
    program = _programs.get(graph)
    if program is None:
        program = _programs[graph] = _Program()
    tell(program.number, set_id, program.add(kind, names, set_id).encode())
    return program.number


def _eager_number(tell: Callable[[int, int, bytes], object], said: str, set_id: int) -> int:
    if (said, set_id) not in _eager:
        number = _eager[said, set_id] = next(_numbers)
        tell(number, set_id, said.encode())
    return _eager[said, set_id]
