"""Tensors that results are written to: no two elements of them may be one place in memory.

The core checks contiguous memory. This file is for tensors that are written through a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ronde._errors import InvalidArgumentError

_MOST_WORK: Any = 1_000_000  # of NumPy's exact search for a common element


class Layout(NamedTuple):
    """The places of a tensor's elements in memory. Strides are in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def bounds(self) -> tuple[int, int]:
        """The addresses of its first byte, and behind its last."""
        reaches = [stride * (extent - 1) for stride, extent in zip(self.strides, self.shape)]
        low = self.address + sum(reach for reach in reaches if reach < 0)
        return low, self.address + sum(reach for reach in reaches if reach > 0) + self.itemsize

    def repeats(self) -> bool:
        """True if several of its elements may be one place."""
        reach = self.itemsize
        for stride, extent in sorted((abs(s), n) for s, n in zip(self.strides, self.shape)):
            if extent > 1 and stride < reach:
                return True
            reach += stride * (extent - 1)
        return False

    def meets(self, other: Layout) -> bool:
        """True if the two share memory, or it is too hard to know."""
        try:
            mine, theirs = np.asarray(_Places(self)), np.asarray(_Places(other))
            return bool(np.shares_memory(mine, theirs, max_work=_MOST_WORK))
        except RuntimeError:  # NumPy's TooHardError
            return True


class _Places:
    """A layout as NumPy takes it. Nothing reads the memory."""

    def __init__(self, layout: Layout) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (layout.address, True),
            "shape": layout.shape,
            "strides": layout.strides,
            "typestr": f"|V{layout.itemsize}",
        }


def check_targets(operation: str, layouts: Sequence[Layout]) -> None:
    """Raises InvalidArgumentError if a tensor repeats itself or two of them share memory."""
    many = len(layouts) > 1
    spans = []
    for index, layout in enumerate(layouts):
        if 0 in layout.shape:
            continue
        if layout.repeats():
            raise InvalidArgumentError(
                f"{operation}: {_name(index, many)} has elements that are one place in memory "
                f"(shape {list(layout.shape)}, strides of {list(layout.strides)} bytes), which "
                "cannot all be written; pass a copy"
            )
        spans.append((*layout.bounds(), index))
    spans.sort()
    for place, (_, high, index) in enumerate(spans):
        for low, _, other in spans[place + 1 :]:
            if low >= high:
                break
            if layouts[index].meets(layouts[other]):
                raise InvalidArgumentError(
                    f"{operation}: {_name(index, many)} and {_name(other, many)} share memory; "
                    "each output needs memory of its own"
                )


def _name(index: int, many: bool) -> str:
    return f"out[{index}]" if many else "out"
