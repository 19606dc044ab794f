"""Cases for training with ronde.tensorflow and ronde.keras."""

import copy
import pickle
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import pytest
import ronde
import ronde.keras
import ronde.tensorflow as hvd
import ronde.tensorflow.keras as hvk
import tensorflow as tf
from ronde import _core
from ronde._training import first_step, replica_check
from ronde.keras._variables_call import CallableList

NEEDS = "tensorflow"
RANKS = (2,)
OPTIONS = ("--horovod",)


def same(tensor, expected, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(tensor), np.asarray(expected), rtol=0, atol=tolerance)


def mean_over_ranks(value_of):
    return sum(value_of(r) for r in range(hvd.size())) / hvd.size()


def batch_of(rank, rows=4):
    """This rank's part of a batch: inputs and targets."""
    generator = np.random.default_rng(rank)
    return generator.normal(size=(rows, 3)).astype("f"), generator.normal(size=(rows, 1)).astype(
        "f"
    )


def small_model(seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [keras.layers.Input((3,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)]
    )


def joined(rows=4):
    parts = [batch_of(r, rows) for r in range(hvd.size())]
    return tuple(np.concatenate(part) for part in zip(*parts))


def train_alone(optimizer, steps=3, rows=4):
    """The weights of one process that has the joined batch."""
    model = small_model()
    model.compile(optimizer, "mse", jit_compile=False)
    x, y = joined(rows)
    for _ in range(steps):
        model.train_on_batch(x, y)
    return model.get_weights()


def train_together(optimizer, steps=3, rows=4):
    model = small_model()
    model.compile(optimizer, "mse")
    for _ in range(steps):
        model.train_on_batch(*batch_of(hvd.rank(), rows))
    return model.get_weights()


def all_same(weights, expected, tolerance=1e-5):
    for mine, theirs in zip(weights, expected):
        same(mine, theirs, tolerance)


def case_a_tape_averages_in_eager_mode_and_in_a_graph():
    v, w = tf.Variable(2.0 + hvd.rank()), tf.Variable([1.0, 2.0])

    def gradients():
        with tf.GradientTape() as tape:
            loss = v * v + tf.reduce_sum(w) * float(hvd.rank())
        tape = hvd.DistributedGradientTape(tape)
        return tape.gradient(loss, {"v": v, "w": [w], "unused": tf.Variable(1.0)})

    for run in (gradients,):
        found = run()
        same(found["v"], mean_over_ranks(lambda r: 2.0 * (2.0 + r)))
        same(found["w"][0], [mean_over_ranks(float)] * 2)
        assert found["unused"] is None

    @tf.function
    def in_graph():
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = v * v + tf.reduce_sum(w) * float(hvd.rank())
        return tape.gradient(loss, [v, w])

    same(in_graph()[0], mean_over_ranks(lambda r: 2.0 * (2.0 + r)))


def case_options_of_the_tape_give_the_same_average():
    variables = [tf.Variable([float(i)] * (i + 1)) for i in range(5)]
    options = [
        {},
        {"num_groups": 2},
        {"groups": [variables[:2], variables[3:]]},
        {"gradient_predivide_factor": 2.0},
        {"gradient_predivide_factor": 2.0, "num_groups": 2},
        {"compression": hvd.Compression.fp16},
    ]
    for option in options:
        for wrap in (lambda f: f, tf.function):

            @wrap
            def gradients(option=option):
                with tf.GradientTape() as tape:
                    loss = tf.add_n([tf.reduce_sum(v) for v in variables]) * (hvd.rank() + 1.0)
                return hvd.DistributedGradientTape(tape, **option).gradient(loss, variables)

            for gradient in gradients():
                same(gradient, [mean_over_ranks(lambda r: r + 1.0)] * len(gradient), 1e-3)
    with pytest.raises(ValueError, match="predivide"):
        hvd.DistributedGradientTape(tf.GradientTape(), op=hvd.Sum, gradient_predivide_factor=2.0)


def case_sparse_gradients_are_joined_or_made_dense():
    table = tf.Variable(tf.zeros([4, 2]))

    def gradient(**options):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [hvd.rank(), 3]))
        return hvd.DistributedGradientTape(tape, **options).gradient(loss, table)

    expected = np.zeros([4, 2])
    expected[: hvd.size()] += 1 / hvd.size()
    expected[3] += 1
    joined = gradient()
    assert isinstance(joined, tf.IndexedSlices)
    same(tf.convert_to_tensor(joined), expected)
    same(gradient(sparse_as_dense=True), expected)


def case_local_sources_stay_on_their_rank():
    ours, own = tf.Variable(1.0), tf.Variable(1.0)
    for scaled in (True, False):
        with tf.GradientTape() as tape:
            loss = (ours + own) * (hvd.rank() + 1.0)
        tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scaled)
        tape.register_local_source(own)
        found = tape.gradient(loss, [ours, own])
        same(found[0], mean_over_ranks(lambda r: r + 1.0))
        same(found[1], (hvd.rank() + 1.0) / (hvd.size() if scaled else 1))
    layer = keras.layers.Dense(1)
    x = tf.ones([1, 1]) * (hvd.rank() + 1.0)
    layer.build(x.shape)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=layer, scale_local_gradients=False)
    same(tape.gradient(loss, layer.trainable_variables)[0], [[hvd.rank() + 1.0]])


def case_training_equals_one_process_with_the_joined_batch():
    for make in (
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
        lambda: keras.optimizers.Adam(0.01),
    ):
        all_same(train_together(hvk.DistributedOptimizer(make())), train_alone(make()))


def case_clipping_sees_the_average():
    clipped = keras.optimizers.SGD(0.1, clipnorm=0.01)
    again = keras.optimizers.SGD(0.1, clipnorm=0.01)
    all_same(train_together(hvk.DistributedOptimizer(clipped)), train_alone(again))


def case_gradients_add_up_before_they_travel():
    keras_own = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
    expected = train_alone(keras.optimizers.SGD(0.1), steps=2)
    all_same(train_together(hvk.DistributedOptimizer(keras_own), steps=4), expected)
    averaged = hvk.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=2, average_aggregated_gradients=True
    )
    all_same(train_together(averaged, steps=4), expected)
    summed = hvk.DistributedOptimizer(keras.optimizers.SGD(0.05), backward_passes_per_step=2)
    all_same(train_together(summed, steps=4), expected)


def case_mixed_precision_skips_a_step_on_all_ranks_together():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = small_model()
    finally:
        keras.mixed_precision.set_global_policy("float32")
    model.compile(hvk.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    before = model.get_weights()
    x, y = batch_of(hvd.rank())
    # Only the last rank overflows.
    model.train_on_batch(x * (1e30 if hvd.rank() == hvd.size() - 1 else 1), y)
    all_same(model.get_weights(), before, 0)
    assert float(model.optimizer.dynamic_scale) == model.optimizer.initial_scale / 2
    model.optimizer.dynamic_scale.assign(1.0)
    model.train_on_batch(x, y)
    assert not np.array_equal(model.get_weights()[0], before[0])
    for weight in hvd.allgather_object(model.get_weights()):
        all_same(weight, model.get_weights(), 0)


def case_fit_with_all_callbacks_learns_the_same_everywhere():
    model = small_model(seed=hvd.rank())
    model.compile(
        hvk.DistributedOptimizer(keras.optimizers.SGD(0.4, momentum=0.5)), "mse", metrics=["mae"]
    )
    callbacks = [
        hvk.callbacks.BroadcastGlobalVariablesCallback(0),
        hvk.callbacks.MetricAverageCallback(),
        hvk.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2, verbose=0),
        hvk.callbacks.LearningRateScheduleCallback(0.4, 0.1, start_epoch=3),
    ]
    x, y = batch_of(hvd.rank(), rows=16)
    history = model.fit(x, y, batch_size=4, epochs=4, verbose=0, callbacks=callbacks).history
    assert history == hvd.broadcast_object(history)
    same(history["lr"][1], 0.4)
    same(history["lr"][3], 0.04)
    for weight in hvd.allgather_object(model.get_weights()):
        all_same(weight, model.get_weights(), 0)


def averaged(logs):
    hvk.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
    return logs


def case_metrics_of_every_kind_are_averaged():
    me = hvd.rank()
    mean = mean_over_ranks(float)
    found = averaged(
        {
            "loss": me,
            "f1": np.array([me, 2 * me], np.float32),
            "matrix": tf.constant([[me, 0.0]]),
            "by_class": {"a": np.float32(me), "b": [me, 1], "said": "yes"},
            "note": "same",
            "nothing": None,
            "right": me == 0,
        }
    )
    assert found["loss"] == mean
    assert type(found["loss"]) is float
    same(found["f1"], [mean, 2 * mean])
    same(found["matrix"], [[mean, 0]])
    same(found["by_class"]["b"], [mean, 1])
    assert (found["by_class"]["a"], found["by_class"]["said"]) == (mean, "yes")
    assert (found["note"], found["nothing"]) == ("same", None)
    same(found["right"], 1 / hvd.size())
    assert averaged({"said": "yes"}) == {"said": "yes"}
    assert averaged({}) == {}


def case_metrics_that_some_ranks_lack_are_an_error_on_all_ranks():
    lacking = {"loss": 1.0, **({"val_loss": 2.0} if hvd.rank() else {})}
    said = r"'val_loss' is a number on rank 1, but no number on rank 0"
    with pytest.raises(ronde.MismatchError, match=said):
        averaged(lacking)
    with pytest.raises(ronde.MismatchError, match=r"'f1' is an array \[2\] on rank 1, .*\[1\] on"):
        averaged({"f1": np.ones(1 + min(hvd.rank(), 1))})


def case_fit_averages_a_metric_that_is_a_vector():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activation="softmax")])
    metric = keras.metrics.F1Score(average=None, name="f1")
    model.compile(
        hvk.DistributedOptimizer(keras.optimizers.SGD(0.1)),
        "categorical_crossentropy",
        metrics=[metric],
    )
    x, y = batch_of(hvd.rank())[0], np.eye(2, dtype="f")[[0, 1, hvd.rank() % 2, 0]]
    callbacks = [hvk.callbacks.MetricAverageCallback()]
    history = model.fit(x, y, verbose=0, callbacks=callbacks).history
    assert history["f1"][0].shape == (2,)
    for other in hvd.allgather_object(history):
        same(other["f1"][0], history["f1"][0])


def case_a_model_that_is_not_distributed_is_a_warning_on_rank_0_once():
    from ronde.keras import _undistributed

    class OwnStep(keras.Sequential):
        def train_step(self, data):
            return {"loss": tf.reduce_mean(self(data[0]))}

    def warnings_of(model, optimizer):
        model.compile(optimizer, "mse")
        callbacks = [hvk.callbacks.BroadcastGlobalVariablesCallback(0)]
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.fit(*batch_of(0), verbose=0, callbacks=callbacks)
        return [str(one.message) for one in seen if "compiled with a plain" in str(one.message)]

    _undistributed._Warned.once = False
    plain = small_model()
    plain.compile("sgd", "mse")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        plain.fit(*batch_of(0), verbose=0)  # without callbacks
    assert sum("compiled with a plain" in str(one.message) for one in seen) == (hvd.rank() == 0)

    _undistributed._Warned.once = False
    own = OwnStep([keras.Input((3,)), keras.layers.Dense(1)])
    assert not warnings_of(own, "sgd")
    assert not warnings_of(small_model(), hvk.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    said = warnings_of(small_model(), "sgd")
    assert len(said) == (hvd.rank() == 0)
    assert all("plain SGD: each rank trains" in text for text in said)
    assert all("hvd.DistributedOptimizer(SGD(...))" in text for text in said)
    assert not warnings_of(small_model(), "sgd")


def case_an_own_train_step_that_averages_nothing_is_a_warning_on_rank_0():
    from ronde.keras import _undistributed

    class OwnStep(keras.Sequential):
        averages = False

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            if self.averages:
                gradients = [hvd.allreduce(g) for g in gradients]
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": loss}

    def warnings_of(averages, **options):
        _undistributed._Warned.once = False
        model = OwnStep([keras.Input((3,)), keras.layers.Dense(2)])
        model.averages = averages
        model.compile("sgd", **options)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(2):  # each has a train function of its own
                model.fit(*batch_of(0, rows=40), batch_size=4, verbose=0)
        return [str(one.message) for one in seen if "averaged nothing" in str(one.message)]

    for options in ({}, {"run_eagerly": True}):
        assert not warnings_of(True, **options)
        said = warnings_of(False, **options)
        assert len(said) == (hvd.rank() == 0)
        assert all(
            "train_step() averaged nothing, and its optimizer is a plain SGD" in t for t in said
        )


def case_copies_of_an_optimizer_do_not_train_alone_without_a_word():
    optimizer = hvk.DistributedOptimizer(keras.optimizers.SGD(0.1))
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled or copied; copy the optimizer bef"):
            duplicate(optimizer)


def said_of_first_steps(train):
    """What the check of the first steps says on this rank."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        train()
    return [str(one.message) for one in seen if "train different models" in str(one.message)]


def fit_of(model, callbacks=(), **options):
    optimizer = hvk.DistributedOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer, "mse", **options)
    data = batch_of(hvd.rank(), rows=12)
    return lambda: model.fit(*data, batch_size=4, epochs=2, verbose=0, callbacks=list(callbacks))


def tape_loop(model):
    def train():
        x, y = batch_of(hvd.rank())
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)

    return train


def optimizer_loop(model):
    optimizer = hvk.DistributedOptimizer(keras.optimizers.SGD(0.1))

    def train():
        for _ in range(3):
            gradients = [tf.ones_like(v) for v in model.trainable_variables]
            optimizer.apply(gradients, model.trainable_variables)

    return train


def case_ranks_that_forgot_to_broadcast_are_one_warning_on_rank_0():
    loops = [
        fit_of,
        lambda model: fit_of(model, run_eagerly=True),
        tape_loop,
        optimizer_loop,
    ]
    for loop in loops:
        said = said_of_first_steps(loop(small_model(seed=hvd.rank())))
        assert len(said) == (hvd.rank() == 0)
        for text in said:
            assert 'kernel" (float32[3, 5]) has another value on rank' in text
            assert "BroadcastGlobalVariablesCallback(0)" in text
        for _ in range(hvd.rank()):  # Keras counts the names of its layers
            small_model()
        assert not said_of_first_steps(loop(small_model(seed=0)))


def case_ranks_that_broadcast_before_or_after_the_first_step_are_no_warning():
    callback = hvk.callbacks.BroadcastGlobalVariablesCallback(0)
    assert not said_of_first_steps(fit_of(small_model(seed=hvd.rank()), [callback]))
    keras.utils.set_random_seed(hvd.rank())
    unbuilt = keras.Sequential([keras.layers.Dense(1)])
    assert not said_of_first_steps(fit_of(unbuilt, [callback]))


def case_variables_of_this_rank_alone_are_not_compared():
    model = small_model(seed=0)
    model.layers[0].kernel.assign_add(tf.fill([3, 5], float(hvd.rank())))
    optimizer = keras.optimizers.SGD(0.1)
    partial = hvk.PartialDistributedOptimizer(optimizer, local_layers=[model.layers[0]])
    model.compile(partial, "mse")
    data = batch_of(0, rows=12)
    assert not said_of_first_steps(lambda: model.fit(*data, batch_size=4, verbose=0))


def case_the_first_steps_error_is_the_same_on_all_ranks():
    train = fit_of(small_model(seed=hvd.rank()))
    ends = mock.patch.object(first_step, "_mode", return_value="error")
    said = r'kernel" \(float32\[3, 5\]\) has another'
    with ends, pytest.raises(ronde.MismatchError, match=said):
        train()


def case_a_model_that_is_built_by_its_first_batch_is_broadcast_after_it():
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(hvk.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    callback = hvk.callbacks.BroadcastGlobalVariablesCallback(0)
    model.fit(*batch_of(hvd.rank()), epochs=2, verbose=0, callbacks=[callback])
    for weight in hvd.allgather_object(model.get_weights()):
        all_same(weight, model.get_weights(), 0)


def case_saved_models_name_the_optimizers_own_class_and_come_back_distributed():
    model = small_model()
    model.compile(hvk.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    model.train_on_batch(*batch_of(hvd.rank()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        assert type(keras.models.load_model(path).optimizer) is keras.optimizers.Adam
        loaded = hvk.load_model(path)
    assert int(loaded.optimizer.iterations) == 1
    for before, after in zip(model.optimizer.variables, loaded.optimizer.variables):
        same(after, before)
    for trained in (model, loaded):
        trained.train_on_batch(*batch_of(hvd.rank()))
    all_same(loaded.get_weights(), model.get_weights())
    for weight in hvd.allgather_object(loaded.get_weights()):
        all_same(weight, loaded.get_weights(), 0)
    config = keras.optimizers.serialize(model.optimizer)
    assert config["class_name"] == "Adam"


def case_the_best_model_is_kept_by_rank_0():
    folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None)
    best = Path(folder) / "best.keras"
    model = small_model()
    model.compile(hvk.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    x, y = batch_of(hvd.rank())
    callbacks = [
        hvk.callbacks.MetricAverageCallback(),
        hvk.callbacks.BestModelCheckpoint(filepath=str(best)),
    ]
    model.fit(x, y, validation_data=(x, y), verbose=0, callbacks=callbacks)
    hvd.barrier()
    assert best.exists()
    hvd.barrier()
    if hvd.rank() == 0:
        best.unlink()
        best.parent.rmdir()


def case_compile_refuses_xla_and_takes_old_arguments():
    model = small_model()
    with pytest.raises(ronde.UnsupportedError, match="jit_compile=False"):
        model.compile(hvk.DistributedOptimizer(keras.optimizers.SGD()), "mse", jit_compile=True)
    model.compile(
        hvk.DistributedOptimizer(keras.optimizers.SGD()), "mse", experimental_run_tf_function=False
    )
    assert model.jit_compile is False


def case_optimizers_that_are_not_allowed():
    with pytest.raises(ValueError, match=r"keras\.optimizers\.Optimizer"):
        hvd.DistributedOptimizer(object())
    with pytest.raises(ValueError, match="already"):
        hvk.DistributedOptimizer(hvk.DistributedOptimizer(keras.optimizers.SGD()))
    with pytest.raises(ValueError, match="allowed: from 1"):
        hvk.DistributedOptimizer(keras.optimizers.SGD(), backward_passes_per_step=0)
    with pytest.raises(ValueError, match="'int9'"):
        hvk.DistributedOptimizer(keras.optimizers.SGD(), compression="int9")
    with pytest.raises(TypeError, match="op must be Average"):
        hvk.DistributedOptimizer(keras.optimizers.SGD(), op="avg")


def case_rules_that_fit_no_variable_warn_once():
    tape = hvd.DistributedGradientTape(
        tf.GradientTape(persistent=True), compression={"none/*": "int8"}
    )
    variable = tf.Variable(tf.ones((2, 2)), name="weight")
    with tape:
        loss = tf.reduce_sum(variable)
    with pytest.warns(UserWarning, match=r"no parameter fits 'none/\*'; there are weight"):
        tape.gradient(loss, variable)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape.gradient(loss, variable)


def case_plain_values_through_keras():
    mean = ronde.keras.allreduce(float(hvd.rank()))
    assert tf.is_tensor(mean)
    same(mean * tf.constant(1.0), (hvd.size() - 1) / 2)
    same(ronde.keras.allgather([hvd.rank()]), range(hvd.size()))
    same(ronde.keras.broadcast([hvd.rank()], 1), [1])


def case_a_horovod_script_runs_unedited():
    import horovod.keras
    import horovod.tensorflow as alias
    import horovod.tensorflow.keras
    from horovod.tensorflow.keras.callbacks import MetricAverageCallback

    assert MetricAverageCallback is horovod.keras.callbacks.MetricAverageCallback
    variable = tf.Variable(float(alias.rank()))
    optimizer = tf.optimizers.SGD(1.0)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = variable * variable
        tape = alias.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, [variable]), [variable]))

    alias.broadcast_variables([variable], root_rank=1)
    step()
    alias.broadcast_variables(optimizer.variables(), root_rank=0)  # a property in Keras 3
    same(variable, -1.0)


def case_only_scripts_get_optimizer_variables_that_can_be_called():
    optimizer = keras.optimizers.SGD()
    optimizer.build([keras.Variable(1.0)])
    for asker, kind in (
        ("keras.src.saving", list),
        ("tensorflow", list),
        ("__main__", CallableList),
    ):
        found = eval("optimizer.variables", {"__name__": asker, "optimizer": optimizer})
        assert type(found) is kind, asker
    assert optimizer.variables() == optimizer.variables


def case_200_steps_lose_as_much_as_one_process_with_the_joined_batch():
    def losses(optimizer, x, y):
        model = small_model()
        model.compile(optimizer, "mse", jit_compile=False)
        return np.array([model.train_on_batch(x, y) for _ in range(200)], np.float64)

    alone = losses(keras.optimizers.SGD(0.05, momentum=0.9), *joined())
    together = hvk.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))
    mine = losses(together, *batch_of(hvd.rank()))
    mean = hvd.allreduce(mine, name="losses").numpy()
    assert np.max(np.abs(mean - alone) / alone) <= 1e-3


def case_optimizers_made_of_a_config_are_distributed_too():
    optimizer = hvk.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.5))
    config = optimizer.get_config()
    for again in (optimizer.from_config(config), type(optimizer).from_config(config)):
        assert again.get_config() == config
        expected = train_alone(keras.optimizers.SGD(0.1, momentum=0.5))
        all_same(train_together(again), expected)


def case_compressed_training_stays_alike_and_close():
    exact = train_together(hvk.DistributedOptimizer(keras.optimizers.SGD(0.1)), steps=5)
    for codec in (hvk.Compression.fp16, hvk.Compression.int8):
        optimizer = hvk.DistributedOptimizer(keras.optimizers.SGD(0.1), compression=codec)
        weights = train_together(optimizer, steps=5)
        all_same(weights, exact, 0.02)
        assert not np.array_equal(weights[0], exact[0])
        for others in hvd.allgather_object(weights):
            all_same(others, weights, 0)


def reports_of(train, steps):
    """What this rank's log says of replicas while they are compared after each step."""
    said = []
    listens = mock.patch.object(_core.Runtime, "warn", lambda _, text: said.append(text))
    with listens, mock.patch.object(replica_check, "_every_steps", return_value=1):
        for _ in range(steps):
            train()
    return said


def case_replicas_that_differ_are_named_in_fit_and_in_loops():
    for loop in (fit_of, lambda model: fit_of(model, run_eagerly=True), optimizer_loop):
        model = small_model(seed=0)
        train = loop(model)
        assert not reports_of(train, 2)
        values = model.layers[0].kernel.numpy()
        values[1, 2] += hvd.rank() == 1
        model.layers[0].kernel.assign(values)
        said = reports_of(train, 2)
        assert len(said) == (hvd.rank() in (0, 1))
        for text in said:
            assert 'kernel" (float32[3, 5]) has another value on rank 1 than on rank 0' in text
            assert "element [1, 2] is " in text


def case_check_replicas_compares_the_optimizers_variables_and_further_ones():
    model = small_model(seed=0)
    fit_of(model)()
    assert model.optimizer.check_replicas()
    assert not model.optimizer.check_replicas(extra={"own": float(hvd.rank())})
    model.optimizer.learning_rate = 0.5 if hvd.rank() == 1 else 0.1
    with mock.patch.object(replica_check, "_action", return_value="repair"):
        assert not model.optimizer.check_replicas()
    assert model.optimizer.check_replicas()
    assert abs(float(model.optimizer.learning_rate) - 0.1) < 1e-6
