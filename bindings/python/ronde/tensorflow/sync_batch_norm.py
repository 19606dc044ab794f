"""SyncBatchNormalization: batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ronde._calls.reduce_ops import Sum
from ronde._collectives.calls import set_id
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import global_process_set
from ronde._job.runtime import is_initialized, rank, size
from ronde._membership import epochs
from ronde._tensorflow import ops
from ronde._tensorflow.collectives import name_of_call
from ronde._tensorflow.tracing import as_written
from ronde.tensorflow import _queries

__all__ = ["SyncBatchNormalization"]


class SyncBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
    """keras.layers.BatchNormalization with mean and variance over all ranks' batches.

    Shapes: as Keras's; the batch may differ between ranks. Outputs and gradients equal those of one
    process with the joined batch. All ranks must call it equally often, in the same order. In
    inference nothing is communicated. `fused=True` raises InvalidArgumentError.
    """

    def __init__(self, fused: bool = False, **options: Any) -> None:
        """Takes the arguments of keras.layers.BatchNormalization."""
        if fused:
            raise InvalidArgumentError("SyncBatchNormalization does not support fused=True")
        super().__init__(**options)

    @as_written
    def _moments(self, inputs: Any, mask: Any) -> Any:
        mean, variance = super()._moments(inputs, mask)
        alone = not is_initialized() or (size() == 1 and not epochs.available())
        if alone:  # an elastic job may grow when its graphs are traced already
            return mean, variance
        count = _values_per_channel(inputs, mask, self._reduction_axes)
        return _joint(mean, variance, count)


def _values_per_channel(inputs: Any, mask: Any, axes: Any) -> Any:
    """The number of values in each channel's mean."""
    shape = tf.shape(inputs)
    count = tf.reduce_prod(tf.gather(shape, list(axes)))
    if mask is None:
        return tf.cast(count, tf.float32)
    per_position = tf.reduce_prod(shape[tf.rank(mask) : -1])
    return tf.reduce_sum(tf.cast(mask, tf.float32)) * tf.cast(per_position, tf.float32)


def _joint(mean: Any, variance: Any, count: Any) -> tuple[Any, Any]:
    """Mean and biased variance over all ranks, from each rank's.

    Source: Chan, Golub, LeVeque, Updating formulae for computing sample variances, 1979.
    """
    mine = tf.stack([mean, variance, tf.zeros_like(mean) + tf.cast(count, mean.dtype)])
    mine = tf.where(tf.math.is_nan(mine), tf.zeros_like(mine), mine)  # of an empty batch
    # A sum of rows, each filled by its rank: the gradient of a sum is the sum over ranks.
    if tf.executing_eagerly():
        own, ranks = rank(), size()
    else:  # as they are when the graph runs
        own, ranks = _queries.rank_op(), _queries.size_op()
    rows = tf.one_hot(own, ranks, dtype=mine.dtype)[:, tf.newaxis, tf.newaxis] * mine
    members = set_id(global_process_set)
    name = name_of_call(None, "sync_batch_norm", members)
    (every,) = ops.allreduce([rows], [name], Sum, (1.0, 1.0), members)
    means, variances, counts = tf.unstack(every, axis=1)
    weights = counts / tf.reduce_sum(counts, axis=0)
    joint = tf.reduce_sum(weights * means, axis=0)
    return joint, tf.reduce_sum(weights * (variances + tf.square(means - joint)), axis=0)
