"""The arrays that copies of states hold: how each kind lies in memory, and is copied."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class ArrayKind(Protocol):
    """One kind of arrays. A form is what two arrays share if one can be copied to the other."""

    def is_plain(self, array: Any) -> bool:
        """True if its values are bytes that can be copied as they are."""

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


def clone(array: Any) -> Any:
    """A copy of an array of a known kind, in memory of its own."""
    return ARRAY_KINDS[type(array)].clone(array)
