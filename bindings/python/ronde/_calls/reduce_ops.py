"""The operations by which reductions combine the ranks' elements."""

from __future__ import annotations

import enum
from typing import Final

from ronde import _core
from ronde._calls.argument_checks import check
from ronde._errors import InvalidArgumentError

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Max",
    "Min",
    "Product",
    "ReduceOp",
    "Sum",
]

_ops = _core.reduce_ops()


class ReduceOp(enum.IntEnum):
    """The operations that combine the ranks' elements; each is an int, as in Horovod."""

    Sum = _ops["sum"]
    Average = _ops["average"]
    Min = _ops["min"]
    Max = _ops["max"]
    Product = _ops["product"]
    BitAnd = _ops["bitand"]
    BitOr = _ops["bitor"]
    BitXor = _ops["bitxor"]
    Adasum = _ops["adasum"]

    def __repr__(self) -> str:
        """Its name, as in the package."""
        return self.name

    __str__ = __repr__


ReduceOp.__module__ = "ronde"
Sum: Final = ReduceOp.Sum
Average: Final = ReduceOp.Average
Min: Final = ReduceOp.Min
Max: Final = ReduceOp.Max
Product: Final = ReduceOp.Product
BitAnd: Final = ReduceOp.BitAnd
BitOr: Final = ReduceOp.BitOr
BitXor: Final = ReduceOp.BitXor
Adasum: Final = ReduceOp.Adasum


def reduce_op(average: bool | None, op: int | None) -> int:
    """The reduce operation that `op` and `average` select together."""
    if op is not None:
        if average is not None:
            raise InvalidArgumentError("give op or average, not both; average is deprecated")
        if not isinstance(op, int):
            check(op=op)
        return op
    if average is None:
        return Average
    check(average=average)
    return Average if average else Sum
