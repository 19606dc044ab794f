"""The memory of a state's two copies: of this process alone, or kept by the host's agent.

The latter is _core.CommitStore; both have the same methods. A copy is two pieces of memory: one for
arrays, and one for the text that tells another process what lies in them.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from copyreg import dispatch_table
from typing import Any

import numpy as np

from ronde._errors import InternalError
from ronde._snapshots.array_kinds import ARRAY_KINDS, KINDS_BY_NAME

_ALIGNMENT = 64

Form = tuple[Any, ...]


class PrivateMemory:
    """Two copies in this process's own memory."""

    def __init__(self) -> None:
        """Holds no copy."""
        self._memory = [np.empty(0, np.uint8), np.empty(0, np.uint8)]
        self._steps = [-1, -1]
        self._begun = -1

    def begin(self, sizes: list[int]) -> list[memoryview]:
        """The memory of the older copy, which is dropped: a view of each size."""
        if self._begun < 0:
            self._begun = int(self._steps[0] > self._steps[1])
        if self._memory[self._begun].nbytes < sum(sizes):
            self._memory[self._begun] = np.empty(sum(sizes), np.uint8)
        self._steps[self._begun] = -1
        whole = self._memory[self._begun].data
        return [whole[: sizes[0]], whole[sizes[0] : sum(sizes)]]

    def commit(self, step: int) -> None:
        """Declares the copy whole."""
        self._steps[self._begun] = step
        self._begun = -1

    def steps(self) -> list[int]:
        """The steps of whole copies, the newest first."""
        return sorted((step for step in self._steps if step >= 0), reverse=True)

    def read(self, step: int) -> None:
        """Drops newer copies."""
        self._steps = [one if one <= step else -1 for one in self._steps]

    def clear(self) -> None:
        """Drops both copies."""
        self._steps, self._begun = [-1, -1], -1


class Layout:
    """The places of arrays of these forms in memory."""

    def __init__(self, forms: list[Form], sizes: list[int]) -> None:
        """One after another, each aligned."""
        self.forms, self._places = forms, []
        self._sizes, self._text = sizes, b""
        end = 0
        for size in sizes:
            self._places.append((end, end + size))
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.size_bytes = end

    def text(self) -> bytes:
        """As unpack() reads it."""
        self._text = self._text or pickle.dumps((self.forms, self._sizes), protocol=5)
        return self._text

    def arrays_in(self, memory: memoryview) -> list[Any]:
        """The arrays, as views."""
        return [
            KINDS_BY_NAME[form[0]].view(memory[begin:end], form)
            for form, (begin, end) in zip(self.forms, self._places)
        ]


class Filling:
    """One pass over a state's arrays: each gets its target in the memory of the new copy."""

    def __init__(self, layout: Layout, targets: list[Any]) -> None:
        """targets: those of the layout."""
        self._known, self._targets = layout.forms, targets
        self._pairs: list[tuple[Any, Any]] = []
        self._forms: list[Form] = []
        self._sizes: list[int] = []
        self._fits = True

    def keep(self, array: Any) -> Any:
        """The array's target, into which copy() copies it; a copy of one that is not plain."""
        kind = ARRAY_KINDS[type(array)]
        if not kind.is_plain(array):
            return kind.clone(array)
        form, index = kind.form(array), len(self._forms)
        self._forms.append(form)
        self._sizes.append(kind.size_bytes(array))
        if index >= len(self._known) or form != self._known[index]:
            self._fits = False
            return None
        self._pairs.append((self._targets[index], array))
        return self._targets[index]

    def fits(self) -> bool:
        """True if the arrays are those of the layout."""
        return self._fits and len(self._forms) == len(self._known)

    def layout(self) -> Layout:
        """The layout of the arrays that came."""
        return Layout(self._forms, self._sizes)

    def copy(self) -> None:
        """Copies all arrays to their targets."""
        for target, array in self._pairs:
            ARRAY_KINDS[type(array)].copy(target, array)


def _at(place: int) -> Any:
    raise InternalError(f"array {place} of a copy is read without its memory")


def pack(layout: Layout, targets: list[Any], values: Any) -> memoryview:
    """The text of a copy: the layout, and the values with their arrays' places in it.

    Raises what pickle raises.
    """
    places = {id(target): place for place, target in enumerate(targets)}

    def reduce(array: Any) -> Any:
        place = places.get(id(array))
        return array.__reduce_ex__(5) if place is None else (_at, (place,))

    text = io.BytesIO(layout.text())
    text.seek(0, io.SEEK_END)
    pickler = pickle.Pickler(text, protocol=5)
    table: dict[type, Callable[[Any], Any]] = dict.fromkeys(ARRAY_KINDS, reduce)
    pickler.dispatch_table = {**dispatch_table, **table}
    pickler.dump(values)
    return text.getbuffer()


class _Unpickler(pickle.Unpickler):
    arrays: list[Any]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, "_at"):
            return self.arrays.__getitem__
        return super().find_class(module, name)


def unpack(arrays: memoryview, text: memoryview) -> Any:
    """The values of a copy; their arrays are views. Raises what pickle raises."""
    stream = io.BytesIO(text)
    layout = Layout(*pickle.load(stream))
    unpickler = _Unpickler(stream)
    unpickler.arrays = layout.arrays_in(arrays)
    return unpickler.load()
