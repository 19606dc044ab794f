"""Cases of ronde.keras.elastic and ronde.tensorflow.elastic."""

from unittest import mock

import keras
import numpy as np
import pytest
import ronde
import ronde.keras as hvd
import ronde.tensorflow as hvt
import ronde.tensorflow.keras as hvk
import tensorflow as tf
from ronde._membership import epochs as _epochs
from ronde._tensorflow import collectives, gradients
from ronde.keras import elastic

NEEDS = "tensorflow"
RANKS = (2,)


def made_state(**values):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.set_weights([np.full((2, 1), 1.0 + hvd.rank()), np.zeros(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    return elastic.KerasState(model, batch=0, epoch=0, **values)


def data():
    return tf.data.Dataset.from_tensor_slices((np.ones((8, 2)), np.zeros((8, 1)))).batch(2)


def case_models_are_synced_and_restored():
    state = made_state(rank=hvd.rank())
    state.sync()
    assert state.rank == 0
    np.testing.assert_array_equal(state.model.get_weights()[0], [[1], [1]])
    state.model.set_weights([np.zeros((2, 1)), np.ones(1)])
    state.restore()
    np.testing.assert_array_equal(state.model.get_weights()[0], [[1], [1]])
    state.model.set_weights([np.full((2, 1), 3.0), np.ones(1)])
    state.commit()
    state.model.set_weights([np.zeros((2, 1)), np.ones(1)])
    state.restore()
    np.testing.assert_array_equal(state.model.get_weights()[0], [[3], [3]])


def case_samplers_are_restored_and_dealt_anew():
    sampler = elastic.ExactSampler(10, shuffle=False)
    state = made_state(sampler=sampler)
    sampler.record_batch(0, 2)
    state.commit()
    sampler.record_batch(1, 2)
    state.restore()
    assert sampler.processed_num == 2 * hvd.size()
    assert state.sampler is sampler
    sampler.record_batch(1, 1 + hvd.rank())
    state.sync()
    assert sampler.processed_num == 3 * hvd.size()
    assert sampler.remaining_indices[0] == sampler.processed_num


def case_optimizers_are_restored():
    state = made_state()
    before = [np.array(v) for v in state.optimizer.variables]
    state.model.fit(data(), verbose=0)
    assert any((np.array(v) != b).any() for v, b in zip(state.optimizer.variables, before))
    state.restore()
    for variable, value in zip(state.optimizer.variables, before):
        np.testing.assert_array_equal(np.array(variable), value)


def case_models_that_are_not_built_are_refused():
    with pytest.raises(ValueError, match=r"is not built; call model\.build"):
        elastic.KerasState(keras.Sequential([keras.layers.Dense(1)]))


class Recorded:
    batch, epoch = 0, 0

    def __init__(self):
        self.commits = []

    def commit(self):
        self.commits.append((self.epoch, self.batch))


def fitted(state, epochs=2, batches_per_commit=1, **options):
    callbacks = [
        elastic.UpdateBatchStateCallback(state),
        elastic.UpdateEpochStateCallback(state),
        elastic.CommitStateCallback(state, batches_per_commit),
    ]
    model = made_state().model
    model.fit(data().repeat(), epochs=epochs, callbacks=callbacks, verbose=0, **options)
    return state.commits


def case_callbacks_count_epochs_and_batches():
    commits = fitted(Recorded(), steps_per_epoch=3)
    assert commits == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]


def case_callbacks_commit_after_some_batches():
    commits = fitted(Recorded(), steps_per_epoch=4, batches_per_commit=3, epochs=1)
    assert commits == [(0, 3), (1, 0)]


def case_epochs_go_on_after_a_reset():
    state = Recorded()
    fitted(state, steps_per_epoch=2, epochs=1)
    fitted(state, steps_per_epoch=2, epochs=2)
    assert state.epoch == 3


def case_a_reset_shortens_the_epoch_in_keras_params():
    state = Recorded()
    state.batch = 2
    callback = elastic.UpdateBatchStateCallback(state)
    callback.set_params({"steps": 5})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    assert callback.params["steps"] == 3
    callback.on_epoch_end(0)
    callback.on_epoch_begin(1)
    assert callback.params["steps"] == 5


class Counting(keras.callbacks.Callback):
    """Counts the batches of each epoch."""

    def __init__(self, counts):
        super().__init__()
        self.counts = counts

    def on_epoch_begin(self, epoch, logs=None):
        self.counts.append(0)

    def on_train_batch_end(self, batch, logs=None):
        self.counts[-1] += 1


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, place):
        return np.ones((2, 2)), np.zeros((2, 3))


def case_an_epoch_that_goes_on_runs_the_remaining_batches_alone():
    arrays = (np.ones((10, 2)), np.zeros((10, 3)))
    endless = tf.data.Dataset.from_tensor_slices(arrays).repeat().batch(2)
    known = tf.data.Dataset.from_tensor_slices(arrays).batch(2)
    for data, options in [
        (endless, {"steps_per_epoch": 5}),
        (known, {}),
        (Batches(), {}),
        (Batches(workers=2), {}),
        (arrays, {"batch_size": 2}),
    ]:
        for done, expected in [(0, [5, 5, 5]), (3, [2, 5, 5]), (5, [0, 5, 5])]:
            state, counts = Recorded(), []
            state.batch = done
            callbacks = [elastic.UpdateBatchStateCallback(state), Counting(counts)]
            given = data if isinstance(data, tuple) else (data,)
            made_state().model.fit(*given, epochs=3, verbose=0, callbacks=callbacks, **options)
            assert counts == expected, (data, counts)
            assert state.batch == 0


def case_variables_are_synced_and_restored():
    variables = [tf.Variable([1.0 + hvt.rank(), 2.0]), tf.Variable(3)]
    state = hvt.elastic.TensorFlowState(variables=variables, batch=5 + hvt.rank())
    state.sync()
    assert state.batch == 5
    np.testing.assert_array_equal(variables[0], [1, 2])
    variables[0].assign([7.0, 7.0])
    state.restore()
    np.testing.assert_array_equal(variables[0], [1, 2])
    variables[0].assign([7.0, 7.0])
    state.commit()
    variables[0].assign([0.0, 0.0])
    state.restore()
    np.testing.assert_array_equal(variables[0], [7, 7])


def case_variables_of_a_session():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", initializer=[1.0 + hvt.rank()])
        session.run(tf.compat.v1.global_variables_initializer())
        state = hvt.elastic.TensorFlowState(session=session, batch=1)
        state.sync()
        assert session.run(variable).tolist() == [1.0]
        variable.load([4.0], session)
        state.restore()
        assert session.run(variable).tolist() == [1.0]


def case_variables_of_a_session_start_from_any_rank():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("v", initializer=[1.0 + hvt.rank()])
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.get_default_graph().finalize()
        state = hvt.elastic.TensorFlowState(session=session, batch=1 + hvt.rank())
        state._progress.root = 1
        state.sync()
        assert session.run(variable).tolist() == [2.0]
        assert state.batch == 2


def case_graphs_that_were_traced_alone_work_in_larger_jobs():
    with mock.patch.object(_epochs, "available", return_value=True):
        with mock.patch.object(ronde.ProcessSet, "size", return_value=1):
            options = gradients.Options()
            assert not options.alone
            predivided = gradients.Options(gradient_predivide_factor=2.0)
            assert predivided.op_and_scale() == (hvt.Average, (0.5, 2.0))

            @tf.function
            def sparse(values):
                return hvt.allreduce(tf.IndexedSlices(values, [0], [3]), name="sparse").values

            @tf.function
            def kept(values):
                return collectives.divided(values, hvt.global_process_set)

            sparse.get_concrete_function(tf.TensorSpec([1], tf.float32))
            kept.get_concrete_function(tf.TensorSpec([1], tf.float32))
        np.testing.assert_array_equal(sparse(tf.constant([4.0])), [4])  # 8 over 2 ranks
        np.testing.assert_array_equal(kept(tf.constant([4.0])), [2])


def case_the_names_of_horovod_are_there():
    assert hvk.elastic.KerasState is elastic.KerasState
    assert issubclass(hvt.elastic.TensorFlowKerasState, elastic.KerasState)
    assert hvt.elastic.run is hvd.elastic.run
