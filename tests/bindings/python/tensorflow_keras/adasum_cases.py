"""Cases for Adasum in TensorFlow and Keras."""

import keras
import numpy as np
import pytest
import ronde.keras
import ronde.tensorflow as hvd
import tensorflow as tf

NEEDS = "tensorflow"
RANKS = (3,)  # two run them through Python, see tensorflow_test.py


def pair(a, b):
    """The formula of two tensors."""
    ab, aa, bb = a @ b, a @ a, b @ b
    return (1 - ab / (2 * aa)) * a + (1 - ab / (2 * bb)) * b


def adasum(tensors):
    """The formula of all ranks' tensors, neighbours first, by fp64."""
    tensors = [np.asarray(t, np.float64) for t in tensors]
    while len(tensors) > 1:
        last = tensors[len(tensors) // 2 * 2 :]
        tensors = [pair(a, b) for a, b in zip(tensors[::2], tensors[1::2])] + last
    return tensors[0]


def drawn(rank, count, dtype):
    values = np.random.default_rng(100 * rank + count).standard_normal(count)
    return tf.cast(values, dtype)


def near(result, count, dtype):
    wanted = adasum([tf.cast(drawn(r, count, dtype), tf.float64) for r in range(hvd.size())])
    ulp = {tf.float16: 2**-10, tf.bfloat16: 2**-7, tf.float32: 2**-23, tf.float64: 2**-50}[dtype]
    np.testing.assert_allclose(tf.cast(result, tf.float64), wanted, rtol=ulp, atol=1e-12)


def case_adasum_is_the_formula_eager_in_a_graph_and_in_groups():
    run = tf.function(lambda t: hvd.allreduce(t, op=hvd.Adasum))
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        for count in (1, 300):
            mine = drawn(hvd.rank(), count, dtype)
            near(hvd.allreduce(mine, op=hvd.Adasum), count, dtype)
            near(run(mine), count, dtype)
    counts = (3, 50, 7)
    mine = [drawn(hvd.rank(), count, tf.float32) for count in counts]
    for result, count in zip(hvd.grouped_allreduce(mine, op=hvd.Adasum), counts):
        near(result, count, tf.float32)


def case_adasum_refuses_integers_reducescatter_slices_and_keras():
    with pytest.raises(ValueError, match="float16, bfloat16, float32 and float64"):
        hvd.allreduce(tf.ones(3, tf.int32), op=hvd.Adasum)
    with pytest.raises(ValueError, match="adasum is not defined for reduce_scatter"):
        hvd.reducescatter(tf.ones(hvd.size()), op=hvd.Adasum)
    with pytest.raises(NotImplementedError):
        hvd.allreduce(tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0])), op=hvd.Adasum)
    for module in (ronde.keras, hvd):
        with pytest.raises(ValueError, match="not supported with Keras optimizers"):
            module.DistributedOptimizer(keras.optimizers.SGD(), op=module.Adasum)


def case_a_tape_combines_gradients_by_adasum():
    variable = tf.Variable([1.0, 2.0, 3.0])
    factors = [drawn(r, 3, tf.float32) for r in range(hvd.size())]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable * factors[hvd.rank()])
    gradient = hvd.DistributedGradientTape(tape, op=hvd.Adasum).gradient(loss, [variable])[0]
    near(gradient, 3, tf.float32)
