"""The operations by which reductions combine the ranks' elements."""

from __future__ import annotations

import enum
from typing import Final

from ronde import _core
from ronde._argument_checks import check
from ronde._errors import InvalidArgumentError

_ops = _core.reduce_ops()


class ReduceOp(enum.IntEnum):
    """How a reduction combines the ranks' elements; each is an int, as in Horovod."""

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
SUM: Final = ReduceOp.Sum
AVERAGE: Final = ReduceOp.Average
MIN: Final = ReduceOp.Min
MAX: Final = ReduceOp.Max
PRODUCT: Final = ReduceOp.Product
BIT_AND: Final = ReduceOp.BitAnd
BIT_OR: Final = ReduceOp.BitOr
BIT_XOR: Final = ReduceOp.BitXor
ADASUM: Final = ReduceOp.Adasum


def reduce_op(average: bool | None, op: int | None) -> int:
    """The reduce operation that `op` and `average` select together."""
    if op is not None:
        if average is not None:
            raise InvalidArgumentError("give op or average, not both; average is deprecated")
        if not isinstance(op, int):
            check(op=op)
        return op
    return SUM if average is False else AVERAGE
