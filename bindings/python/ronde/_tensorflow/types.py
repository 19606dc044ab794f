"""Element types of collectives, and those that are sent as other types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ronde import _core
from ronde._calls.argument_checks import shown
from ronde._calls.reduce_ops import Average, Sum
from ronde._errors import ArgumentTypeError, InvalidArgumentError

# The core's; the kernels have none for its 8-bit floating types.
TYPES = tuple(getattr(tf, name) for name in _core.dtypes() if not name.startswith("float8"))
# Sent as pairs of real numbers, with a last dimension of 2.
COMPLEX = (tf.complex64, tf.complex128)


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
    _check(found, (*TYPES, *COMPLEX), "is not supported")
    return found


def _check(tensors: Sequence[Any], allowed: Sequence[Any], problem: str) -> None:
    for tensor in tensors:
        if tensor.dtype not in allowed:
            names = ", ".join(kind.name for kind in allowed)
            raise InvalidArgumentError(f"{tensor.dtype.name} {problem}; allowed: {names}")


def numbers(values: Sequence[Any], op: int) -> list[Any]:
    """As _tensors, for types that can be reduced by `op`."""
    found = _tensors(values)
    if op not in (Sum, Average):
        _check(found, TYPES, "can be summed and averaged only; other operations are for real types")
    return found


def with_rows(what: str, values: Sequence[Any]) -> Sequence[Any]:
    """The values. Raises InvalidArgumentError for a complex number: its pair would be two rows."""
    for value in values:
        if getattr(value, "dtype", None) in COMPLEX and value.shape.rank == 0:
            raise InvalidArgumentError(
                f"{what}: shape [] has no first dimension to divide; at least one is needed"
            )
    return values


def in_reals(
    tensors: Sequence[Any], run: Callable[[list[Any]], Sequence[Any]], of_scalar: Sequence[int] = ()
) -> list[Any]:
    """Calls `run` with complex tensors as pairs of real numbers, and makes its results complex.

    of_scalar: the shape in which a single complex number is sent, but for its pair.
    """

    def real(tensor: Any) -> Any:
        if tensor.dtype not in COMPLEX:
            return tensor
        if tensor.shape.rank == 0:
            tensor = tf.reshape(tensor, of_scalar)
        return tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], axis=-1)

    return [
        tf.complex(result[..., 0], result[..., 1]) if tensor.dtype in COMPLEX else result
        for result, tensor in zip(run([real(tensor) for tensor in tensors]), tensors)
    ]


def carried(
    values: Sequence[Any], move: Callable[[list[Any]], list[Any]], of_scalar: Sequence[int] = ()
) -> list[Any]:
    """Calls `move` on the values as tensors of types that collectives have: see in_reals()."""
    return in_reals(_tensors(values), move, of_scalar)
