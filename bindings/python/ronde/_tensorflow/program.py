"""The collectives of the function being traced, for ranks to compare.

Kernels send them. If one rank has traced another function, all ranks get an error at once that
names the ranks. They do not wait for operations that other ranks lack.
"""

from __future__ import annotations

import itertools
import random
import weakref
import zlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._tensorflow import names as _names

# From anywhere, as saved graphs keep the numbers of the process that traced them.
_numbers = itertools.count(random.SystemRandom().getrandbits(62))


class _Program:
    """The collectives of one traced function, by process set, in any order."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self._kinds: dict[int, Counter[str]] = {}
        self._sums: Counter[int] = Counter()

    def add(self, kind: str, names: Sequence[str], set_id: int) -> str:
        """Adds operations; returns the set's program as a text, to print and to compare."""
        kinds = self._kinds.setdefault(set_id, Counter())
        kinds[kind] += len(names)
        self._sums[set_id] += sum(zlib.crc32(f"{kind} {name}".encode()) for name in names)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        return f"a function traced with {counts} ({self._sums[set_id] & 0xFFFFFFFF:08x})"


class Texts:
    """The text of each program and process set, used without kernels."""

    def __init__(self) -> None:
        self._texts: dict[int, dict[int, str]] = {}

    def tell(self, number: int, set_id: int, text: bytes) -> None:
        self._texts.setdefault(number, {})[set_id] = text.decode()

    def name(self, name: bytes) -> None:
        """The kernels alone need to know which names a graph submits."""

    def forget(self, number: int) -> int:
        return len(self._texts.pop(number, {}))

    def text(self, number: int, set_id: int) -> str:
        """The text; empty if there is none."""
        return self._texts.get(number, {}).get(set_id, "")


_programs: weakref.WeakKeyDictionary[Any, _Program] = weakref.WeakKeyDictionary()
# The numbers of programs in eager mode, by set; the ones used last come last.
_eager: OrderedDict[tuple[str, int], int] = OrderedDict()
_MOST_EAGER = 256  # more than the different calls of a program


def note(
    texts: Any,
    kind: str,
    names: Sequence[str],
    set_id: int,
    said: str = "",
) -> int:
    """The number of an operation's program; 0: none, -1: eager mode.

    It is the traced function's, or in eager mode that of `said`, if given. Operations in graphs of
    TensorFlow 1 have none, as sessions run parts of those. texts: keeps the programs' texts, as
    Texts does, for the lifetime of the function.
    """
    if tf.executing_eagerly():
        return _eager_number(texts, said, set_id) if said else -1
    graph = _names.function()
    if not _names.is_function(graph):
        return 0
    program = _programs.get(graph)
    if program is None:
        program = _programs[graph] = _Program()
        weakref.finalize(graph, texts.forget, program.number).atexit = False
    texts.tell(program.number, set_id, program.add(kind, names, set_id).encode())
    for name in names:
        texts.name(name.encode())
    return program.number


def _eager_number(texts: Any, said: str, set_id: int) -> int:
    if (said, set_id) not in _eager:
        number = _eager[said, set_id] = next(_numbers)
        texts.tell(number, set_id, said.encode())
        if len(_eager) > _MOST_EAGER:
            texts.forget(_eager.popitem(last=False)[1])
    _eager.move_to_end((said, set_id))
    return _eager[said, set_id]
