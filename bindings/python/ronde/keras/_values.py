"""Collectives on plain values: numbers, arrays, and tensors of any backend."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ronde._calls.argument_checks import shown
from ronde._calls.described import described
from ronde._calls.reduce_ops import Average, reduce_op
from ronde._collectives import on_arrays
from ronde._errors import ArgumentTypeError

__all__ = ["allgather", "allreduce", "broadcast", "reducescatter"]


def _array(value: Any) -> Any:
    """The value as an array. Raises ArgumentTypeError for what the backend makes no tensor of."""
    try:
        tensor = keras.ops.convert_to_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentTypeError(f"value must be a number or an array, not {shown(value)}") from None
    return np.asarray(keras.ops.convert_to_numpy(tensor))


@described
def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = None,
) -> Any:
    """Combines a value over all ranks (by default Average); returns a tensor of the backend.

    `compression` is accepted for Horovod scripts and has no effect on plain values.
    """
    del compression
    reduced = on_arrays.allreduce(
        _array(value), name, reduce_op(average, op), prescale_factor, postscale_factor
    )
    return keras.ops.convert_to_tensor(reduced)


@described
def allgather(value: Any, name: str | None = None) -> Any:
    """Joins the values of all ranks along the first dimension; a tensor of the backend."""
    return keras.ops.convert_to_tensor(on_arrays.allgather(_array(value), name))


@described
def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Gives every rank the root's value; a tensor of the backend."""
    return keras.ops.convert_to_tensor(on_arrays.broadcast(_array(value), root_rank, name))


@described
def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """Combines over all ranks; returns this rank's chunk of the rows, a tensor of the backend."""
    return keras.ops.convert_to_tensor(on_arrays.reduce_scatter(_array(value), name, op))
