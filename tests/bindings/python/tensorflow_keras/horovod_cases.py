"""Cases that Horovod's own TensorFlow tests check."""

import keras
import numpy as np
import pytest
import ronde
import ronde.tensorflow as hvd
import tensorflow as tf

NEEDS = "tensorflow"
RANKS = (2,)
OPTIONS = ("--horovod",)

DTYPES = (tf.uint8, tf.int8, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)


def same(tensor, expected):
    np.testing.assert_array_equal(np.asarray(tensor), np.asarray(expected))


def slices_of(dtype, value=1):
    """Two rows: this rank's and the next."""
    rows = tf.fill([2, 3], tf.cast(value, dtype))
    indices = tf.constant([hvd.rank(), hvd.rank() + 1])
    return tf.IndexedSlices(rows, indices, tf.constant([hvd.size() + 1, 3]))


def summed(value=1):
    """The dense sum of slices_of(value) over all ranks."""
    rows = np.full(hvd.size() + 1, 2 * value)
    rows[[0, -1]] = value
    return np.repeat(rows[:, np.newaxis], 3, axis=1)


def dense(slices):
    rows = tf.math.unsorted_segment_sum(slices.values, slices.indices, hvd.size() + 1)
    assert rows.dtype == slices.dtype
    return rows


def case_slices_of_every_type_are_summed_in_groups():
    for run in (hvd.grouped_allreduce, tf.function(hvd.grouped_allreduce)):
        for dtype in DTYPES:
            first, second = run([slices_of(dtype), slices_of(dtype, 2)], op=hvd.Sum)
            same(dense(first), summed())
            same(dense(second), summed(2))


def case_slices_and_dense_tensors_travel_together():
    for run in (hvd.grouped_allreduce, tf.function(hvd.grouped_allreduce)):
        for dtype in DTYPES:
            plain = tf.cast([hvd.rank(), 3], dtype)
            before, slices, after = run([plain, slices_of(dtype), plain], average=False)
            same(dense(slices), summed())
            for tensor in (before, after):
                same(tensor, [sum(range(hvd.size())), 3 * hvd.size()])


def case_averages_of_slices_are_quotients():
    for dtype in DTYPES:
        averaged = hvd.allreduce(slices_of(dtype, 5), op=hvd.Average)
        expected = tf.cast(summed(5), dtype) / tf.cast(hvd.size(), dtype)
        assert averaged.dtype == expected.dtype  # integers divide to floating point
        same(averaged.indices, range(hvd.size() + 1))
        same(averaged.values, expected)


def case_slices_have_factors():
    for run in (hvd.allreduce, tf.function(hvd.allreduce)):
        doubled = run(slices_of(tf.float32), op=hvd.Sum, prescale_factor=4.0, postscale_factor=0.5)
        same(dense(doubled), summed(2))


def case_slices_out_of_range_are_an_error_on_all_ranks():
    wrong = tf.IndexedSlices(tf.ones([1, 3]), [hvd.rank() * 9], tf.constant([9, 3]))
    with pytest.raises(Exception, match="rank 1 of the group gave index 9; allowed: 0 to 8"):
        hvd.allreduce(wrong, op=hvd.Sum)


def case_slices_refuse_other_operations():
    for options, said in (
        ({"op": hvd.Max}, "op=Sum"),
        ({"op": hvd.Product}, "sparse_as_dense=True"),
    ):
        with pytest.raises(NotImplementedError, match=said) as raised:
            hvd.allreduce(slices_of(tf.float32), **options)
        assert isinstance(raised.value, ronde.UnsupportedError)
        with pytest.raises(NotImplementedError, match=said):
            hvd.grouped_allreduce([tf.ones(2), slices_of(tf.float32)], **options)
        with pytest.raises(NotImplementedError, match=said):
            tf.function(hvd.allreduce)(slices_of(tf.float32), **options)
    same(hvd.allreduce(tf.ones(2), op=hvd.Sum), [hvd.size()] * 2)  # nothing was sent


def built_model():
    start = keras.initializers.Constant(hvd.rank() + 1.0)
    layers = [keras.layers.Dense(2, kernel_initializer=start) for _ in range(3)]
    return keras.Sequential([keras.Input([3]), *layers])


def case_a_partial_tape_keeps_gradients_of_local_layers():
    for local in range(3):
        model = built_model()
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_sum(model(tf.ones([1, 3])))
        weights = model.trainable_weights
        own = {v.ref(): g for v, g in zip(weights, tape.gradient(loss, weights))}
        layers = model.layers[:local]
        tape = hvd.PartialDistributedGradientTape(tape, local_layers=layers)
        kept = {v.ref() for layer in layers for v in layer.trainable_weights}
        for v, g in zip(weights, tape.gradient(loss, weights)):
            expected = own[v.ref()] / hvd.size() if v.ref() in kept else hvd.allreduce(own[v.ref()])
            np.testing.assert_allclose(g, expected, rtol=1e-6)
        ours, others = tape.get_local_and_global_gradients(loss, weights)
        assert {v.ref() for v, _ in ours} == kept
        assert len(ours) + len(others) == len(weights)
        for v, g in ours:
            np.testing.assert_allclose(g, own[v.ref()] / hvd.size(), rtol=1e-6)


def case_a_partial_tape_takes_layers_only():
    model = built_model()
    with pytest.raises(ValueError, match="register_local_source"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=model.weights)


def case_keras_variables_have_horovods_keys():
    kernel = built_model().weights[0]
    assert kernel.ref() == kernel.ref() == kernel.value.ref()
    assert hvd.refs_to_vars(hvd.vars_to_refs([kernel.value]))[0] is kernel.value
    assert hvd.vars_to_refs([kernel]) == (kernel.ref(),)


def case_optimizers_have_their_learning_rate_as_lr():
    optimizer = keras.optimizers.SGD(0.5)
    assert optimizer.lr.numpy() == 0.5
    optimizer.lr = 0.125
    assert optimizer.learning_rate.numpy() == 0.125


def case_global_variables_are_broadcast_in_graphs_only():
    with pytest.raises(RuntimeError, match="broadcast_variables"):
        hvd.broadcast_global_variables(0)
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("v", initializer=float(hvd.rank()))
        hook = hvd.BroadcastGlobalVariablesHook(1)
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            same(session.run(variable), 1.0)


def case_optimizers_of_tensorflow_1_average_gradients_in_sessions():
    with tf.Graph().as_default():
        dense = tf.compat.v1.get_variable("dense", initializer=[1.0, 2.0])
        table = tf.compat.v1.get_variable("table", initializer=[[0.0], [0.0]])
        rows = tf.gather(table, [hvd.rank() % 2])
        loss = tf.reduce_sum(dense) * float(hvd.rank()) + tf.reduce_sum(rows)
        momentum = tf.compat.v1.train.MomentumOptimizer(1.0, 0.0)
        optimizer = hvd.DistributedOptimizer(momentum, use_locking=True)
        step = optimizer.minimize(loss)
        assert optimizer.get_name() == "DistributedMomentumOptimizer"
        assert optimizer.get_slot_names() == ["momentum"]
        assert len(optimizer.variables()) == 2
        assert optimizer.get_slot(dense, "momentum") is not None
        with tf.compat.v1.train.MonitoredSession() as session:
            for _ in range(3):
                session.run(step)
            mean = (hvd.size() - 1) / 2
            same(session.run(dense), [1 - 3 * mean, 2 - 3 * mean])
            odd = hvd.size() // 2
            for row, count in enumerate((hvd.size() - odd, odd)):
                same(session.run(table)[row], [-3 * count / hvd.size()])


def case_optimizers_of_tensorflow_1_refuse_what_only_keras_optimizers_take():
    plain = tf.compat.v1.train.GradientDescentOptimizer(1.0)
    for named in ({"op": hvd.Adasum}, {"backward_passes_per_step": 2}, {"weight": 3.0}):
        with pytest.raises(NotImplementedError, match=f"{next(iter(named))}=.*TensorFlow 1"):
            hvd.DistributedOptimizer(plain, **named)


def case_synchronous_batch_normalization_takes_fused():
    assert hvd.SyncBatchNormalization(axis=1, fused=False).axis == 1
    with pytest.raises(ValueError, match="fused=True"):
        hvd.SyncBatchNormalization(fused=True)


def case_keras_has_no_global_variables():
    import horovod.keras
    import horovod.tensorflow.keras

    for module in (horovod.keras, horovod.tensorflow.keras):
        with pytest.raises(RuntimeError, match="BroadcastGlobalVariablesCallback"):
            module.broadcast_global_variables(0)
