"""The arrays that copies of states hold: how each kind lies in memory, and is copied."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class ArrayKind(Protocol):
    """One kind of arrays. A form is what two arrays share if one can be copied to the other."""

    def is_plain(self, array: Any) -> bool:
        """True if its values are bytes that can be copied as they are."""

    def is_writeable(self, array: Any) -> bool:
        """True if copy() can write to it."""

    def form(self, array: Any) -> tuple[Any, ...]:
        """(the kind's name, ...); it can be compared and pickled."""

    def size_bytes(self, array: Any) -> int:
        """The number of bytes that view() needs for such an array."""

    def view(self, memory: memoryview, form: tuple[Any, ...]) -> Any:
        """An array of this form in the memory."""

    def copy(self, target: Any, array: Any) -> None:
        """Copies the values of an array to one of the same form."""

    def clone(self, array: Any) -> Any:
        """A copy in memory of its own."""


class _NumpyKind:
    """NumPy arrays."""

    def is_plain(self, array: Any) -> bool:
        return not array.dtype.hasobject

    def is_writeable(self, array: Any) -> bool:
        return bool(array.flags.writeable)

    def form(self, array: Any) -> tuple[Any, ...]:
        return "numpy", array.dtype, array.shape

    def size_bytes(self, array: Any) -> int:
        return int(array.nbytes)

    def view(self, memory: memoryview, form: tuple[Any, ...]) -> Any:
        return np.ndarray(form[2], form[1], memory)

    def copy(self, target: Any, array: Any) -> None:
        np.copyto(target, array)

    def clone(self, array: Any) -> Any:
        return array.copy()


ARRAY_KINDS: dict[type, ArrayKind] = {np.ndarray: _NumpyKind()}  # by the arrays' type
KINDS_BY_NAME: dict[str, ArrayKind] = {"numpy": ARRAY_KINDS[np.ndarray]}


def register_kind(name: str, array_type: type, kind: ArrayKind) -> None:
    """Makes copies keep arrays of this type in their memory."""
    ARRAY_KINDS[array_type] = KINDS_BY_NAME[name] = kind


def kind_of(value: Any) -> ArrayKind | None:
    """The kind of an array, also of a class derived from a known one; None for other objects."""
    for base in type(value).__mro__:
        if base in ARRAY_KINDS:
            return ARRAY_KINDS[base]
    return None


def clone(array: Any) -> Any:
    """A copy of an array of a known kind, in memory of its own."""
    kind: Any = kind_of(array)
    return kind.clone(array)
