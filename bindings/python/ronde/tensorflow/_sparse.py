"""The limits of tf.IndexedSlices, and averages of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde import _epochs
from ronde._collectives import set_id
from ronde._errors import UnsupportedError
from ronde._horovod import Average, Sum
from ronde._job import ProcessSet
from ronde.tensorflow import _ops


def check_sparse(op: int, scale: tuple[float, float]) -> None:
    """Raises UnsupportedError for operations and factors that tf.IndexedSlices do not have."""
    if op not in (Sum, Average):
        raise UnsupportedError(
            "tf.IndexedSlices can be summed and averaged only: pass op=Sum or op=Average, or make "
            "them dense by tf.convert_to_tensor() (sparse_as_dense=True in an optimizer or a tape)"
        )
    if scale != (1.0, 1.0):
        raise UnsupportedError(
            f"prescale_factor={scale[0]} and postscale_factor={scale[1]}: tf.IndexedSlices have no "
            "factors; multiply their values, or make them dense by tf.convert_to_tensor()"
        )


def divided(tensor: Any, process_set: ProcessSet) -> Any:
    """The tensor, divided by the ranks of the set; the quotients of integers are floating point.

    Graphs of an elastic job are traced once, and outlive changes of its ranks.
    """
    in_elastic_graph = _epochs.available() and not tf.executing_eagerly()
    ranks = (
        _ops.query("size", set_id(process_set), None)
        if in_elastic_graph
        else process_set.size() or 1
    )
    return tensor / tf.cast(ranks, tensor.dtype)


def check_unweighted(weight: Any) -> None:
    """Raises UnsupportedError for a weight of tf.IndexedSlices."""
    if weight is not None:
        raise UnsupportedError("tf.IndexedSlices take no weight; make them dense")
