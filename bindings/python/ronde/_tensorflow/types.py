"""Element types of collectives, and those that are sent as other types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._errors import ArgumentTypeError, InvalidArgumentError

# The core's; the kernels have none for its 8-bit floating types.
TYPES = tuple(getattr(tf, name) for name in _core.dtypes() if not name.startswith("float8"))
# Types sent as others with the same bits, in collectives that compute nothing.
CARRIED = {tf.complex64: tf.int64}


def _dense(value: Any) -> Any:
    """The value as a dense tensor. Raises InvalidArgumentError if it cannot be one."""
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as problem:
        kind = type(value).__name__
        remedy = "; tf.sparse.to_dense() makes one" if isinstance(value, tf.SparseTensor) else ""
        raise InvalidArgumentError(
            f"{kind} is not supported; allowed: dense tensors{remedy}"
        ) from problem


def row_counts(splits: Any) -> Any:
    """The splits of an alltoall as int64. Raises ArgumentTypeError unless they are integers."""
    wanted = "splits must be whole numbers, the rows for each rank, not"
    try:
        counts = tf.convert_to_tensor(splits)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{wanted} {shown(splits)}") from None
    if not counts.dtype.is_integer and counts.shape != (0,):
        raise ArgumentTypeError(f"{wanted} of type {counts.dtype.name}")
    return tf.cast(counts, tf.int64)


def scalar(weight: Any) -> Any:
    """A rank's weight as a float64 scalar. Raises ArgumentTypeError for anything but one number."""
    try:
        return tf.reshape(tf.cast(weight, tf.float64), [])
    except (TypeError, ValueError, tf.errors.OpError):
        raise ArgumentTypeError(
            f"weight must be a number or a tensor of one, not {shown(weight)}"
        ) from None


def _tensors(values: Sequence[Any]) -> list[Any]:
    """The values as dense tensors. Raises InvalidArgumentError if one cannot be dense."""
    found = [_dense(value) for value in values]
    if not found:
        raise InvalidArgumentError("no tensors given")
    _check(found, (*TYPES, *CARRIED), "is not supported")
    return found


def _check(tensors: Sequence[Any], allowed: Sequence[Any], problem: str) -> None:
    for tensor in tensors:
        if tensor.dtype not in allowed:
            names = ", ".join(kind.name for kind in allowed)
            raise InvalidArgumentError(f"{tensor.dtype.name} {problem}; allowed: {names}")


def numbers(values: Sequence[Any]) -> list[Any]:
    """As _tensors, for types that can be reduced."""
    found = _tensors(values)
    _check(found, TYPES, "cannot be reduced")
    return found


def carried(values: Sequence[Any], move: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """Calls `move` on the tensors, cast to types that collectives have, and casts back."""
    tensors = _tensors(values)
    sent = [tf.bitcast(t, CARRIED[t.dtype]) if t.dtype in CARRIED else t for t in tensors]
    return [
        tf.bitcast(moved, t.dtype) if t.dtype in CARRIED else moved
        for moved, t in zip(move(sent), tensors)
    ]
