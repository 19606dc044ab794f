"""Cases for averages with weights in TensorFlow and Keras."""

import keras
import numpy as np
import pytest
import ronde.tensorflow as hvd
import tensorflow as tf
from collective_cases import FLOATING, mine
from training_cases import batch_of, same, small_model

NEEDS = "tensorflow"
RANKS = (3,)  # two run them through Python, see tensorflow_test.py


def case_weights_make_a_weighted_mean_eager_and_in_a_graph_that_is_traced_once():
    in_graph = tf.function(lambda t, w: hvd.allreduce(t, name="weighted", weight=w))
    pair = tf.function(lambda t, w: hvd.grouped_allreduce([t, t], weight=w)[1])
    for dtype in FLOATING:
        for step in range(3):
            weights = [step + 2.5 * r for r in range(hvd.size())]
            ranks = [tf.cast(mine(7, dtype=dtype, rank=r), tf.float64) for r in range(hvd.size())]
            wanted = sum(w * t for w, t in zip(weights, ranks)) / sum(weights)
            weight = tf.constant(weights[hvd.rank()], tf.float64)
            for run in (in_graph, pair, lambda t, w: hvd.allreduce(t, weight=float(w))):
                result = tf.cast(run(mine(7, dtype=dtype), weight), tf.float64)
                limit = {tf.float16: 4e-3, tf.bfloat16: 3e-2, tf.float32: 5e-7}.get(dtype, 1e-15)
                np.testing.assert_allclose(result, wanted, rtol=limit)
    with pytest.raises(Exception, match="the weights of all ranks are 0"):
        hvd.allreduce(tf.ones(2), name="weighted", weight=0)
    with pytest.raises(ValueError, match="a weight needs op=Average"):
        hvd.allreduce(tf.ones(2), op=hvd.Sum, weight=1)
    with pytest.raises(NotImplementedError, match=r"tf\.IndexedSlices take no weight"):
        hvd.allreduce(tf.IndexedSlices(tf.ones([1, 2]), [0], [3, 2]), weight=1)


def case_uneven_batches_with_weights_equal_one_process_with_the_joined_batch():
    rows = [2 + 3 * r for r in range(hvd.size())]
    parts = [batch_of(r, rows[r]) for r in range(hvd.size())]
    x, y = (np.concatenate(part) for part in zip(*parts))
    alone, together = small_model(), small_model()
    alone.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), weight=1)
    together.compile(optimizer, "mse")
    for step in range(4):
        even = step % 2 == 0  # batches change from step to step
        own = [part[:2] if even else part for part in parts[hvd.rank()]]
        optimizer.set_weight(len(own[0]))
        together.train_on_batch(*own)
        if even:
            alone.train_on_batch(
                *(np.concatenate(c) for c in zip(*[[a[:2] for a in p] for p in parts]))
            )
        else:
            alone.train_on_batch(x, y)
    for ours, theirs in zip(together.get_weights(), alone.get_weights()):
        same(ours, theirs)
    with pytest.raises(ValueError, match="a weight needs op=Average"):
        hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), op=hvd.Sum, weight=1)


def case_a_tape_takes_a_weight():
    variable = tf.Variable([1.0, 2.0])
    for weight in (1.0 + hvd.rank(), tf.constant(1.0 + hvd.rank())):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * (hvd.rank() + 1.0))
        gradient = hvd.DistributedGradientTape(tape, weight=weight).gradient(loss, variable)
        squares = sum((r + 1) ** 2 for r in range(hvd.size()))
        same(gradient, [squares / sum(r + 1 for r in range(hvd.size()))] * 2)
