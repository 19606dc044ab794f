"""Collectives on plain values: numbers, arrays, and tensors of any backend."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ronde import _numpy
from ronde._described import described
from ronde._reduce_ops import AVERAGE, reduce_op

__all__ = ["allgather", "allreduce", "broadcast", "reducescatter"]


def _array(value: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(keras.ops.convert_to_tensor(value)))


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
    reduced = _numpy.allreduce(
        _array(value), name, reduce_op(average, op), prescale_factor, postscale_factor
    )
    return keras.ops.convert_to_tensor(reduced)


@described
def allgather(value: Any, name: str | None = None) -> Any:
    """Joins the values of all ranks along the first dimension; a tensor of the backend."""
    return keras.ops.convert_to_tensor(_numpy.allgather(_array(value), name))


@described
def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Gives every rank the root's value; a tensor of the backend."""
    return keras.ops.convert_to_tensor(_numpy.broadcast(_array(value), root_rank, name))


@described
def reducescatter(value: Any, name: str | None = None, op: int = AVERAGE) -> Any:
    """Combines over all ranks; returns this rank's chunk of the rows, a tensor of the backend."""
    return keras.ops.convert_to_tensor(_numpy.reduce_scatter(_array(value), name, op))
