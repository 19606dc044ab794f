"""Cases for optimizers of Keras that each rank has a part of: DistributedOptimizer(shard=...)."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import ronde
import ronde.keras as hvk
import ronde.tensorflow as hvd
import tensorflow as tf

NEEDS = "tensorflow"
RANKS = (2,)
OPTIONS = ("--horovod",)


def made_model():
    """Variables of odd sizes; the last one has no gradient."""
    keras.utils.set_random_seed(7)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(37, activation="tanh"),
            keras.layers.Dense(11, use_bias=False),
            keras.layers.Dense(1, kernel_constraint=keras.constraints.MaxNorm(0.5)),
        ]
    )


def batches(steps, rank=None):
    generator = np.random.default_rng(hvd.rank() if rank is None else rank)
    x = generator.normal(size=(4 * steps, 3)).astype("f")
    return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(4)


def fitted(optimizer, eager=False, steps=4, model=None):
    """A model that model.fit() has trained."""
    model = model or made_model()
    model.compile(optimizer, "mse", run_eagerly=eager)
    model.fit(batches(steps), verbose=0)
    return model


def same_bits(model, other):
    for one, two in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(two), one.path)


def state_bytes(optimizer):
    return sum(np.array(variable).nbytes for variable in optimizer.variables)


def schedule():
    return keras.optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)


OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.05),
    "momentum, clipvalue": lambda: keras.optimizers.SGD(0.05, 0.9, nesterov=True, clipvalue=0.1),
    "Adam, global_clipnorm": lambda: keras.optimizers.Adam(0.05, amsgrad=True, global_clipnorm=0.1),
    "AdamW, clipnorm": lambda: keras.optimizers.AdamW(schedule(), weight_decay=0.1, clipnorm=0.1),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.05, momentum=0.9, centered=True),
    "Nadam": lambda: keras.optimizers.Nadam(0.05),
    "Muon": lambda: keras.optimizers.Muon(0.05),
    "ema": lambda: keras.optimizers.Adam(0.05, use_ema=True, ema_overwrite_frequency=3),
}


def case_sharded_training_has_the_bits_of_dense_training_in_fit():
    for name, made in OPTIMIZERS.items():
        dense = fitted(hvk.DistributedOptimizer(made()))
        sharded = fitted(hvk.DistributedOptimizer(made(), shard="optimizer"))
        try:
            same_bits(sharded, dense)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def case_sharded_training_has_the_bits_of_dense_training_eager_and_in_loops():
    made = OPTIMIZERS["AdamW, clipnorm"]
    dense = fitted(hvk.DistributedOptimizer(made()))
    same_bits(fitted(hvk.DistributedOptimizer(made(), shard="optimizer"), eager=True), dense)
    for compiled in (False, True):
        model = made_model()
        optimizer = hvd.DistributedOptimizer(made(), shard="optimizer")
        optimizer.build(model.trainable_variables)
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(optimizer.variables, root_rank=0)  # leaves out what is one rank's

        def step(x, y, model=model, optimizer=optimizer):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        step = tf.function(step) if compiled else step
        for x, y in batches(4):
            step(x, y)
        same_bits(model, dense)


def case_each_rank_has_the_state_of_its_variables_alone():
    dense = fitted(hvk.DistributedOptimizer(keras.optimizers.Adam())).optimizer
    mine = fitted(hvk.DistributedOptimizer(keras.optimizers.Adam(), shard="optimizer")).optimizer
    whole = np.array(hvd.allgather(tf.constant([state_bytes(mine)])))
    shared = 2 * 4 + 4  # the steps, 64 bits or fewer, and the rate
    assert abs(whole.sum() - state_bytes(dense)) <= shared
    parameters = state_bytes(dense) // 2
    largest = 11 * 37 * 4  # a variable is not cut
    assert whole.max() <= parameters // hvd.size() * 2 + largest
    assert mine.memory_bytes()["parameters"] == parameters - parameters % 4
    assert abs(mine.memory_bytes()["state"] - state_bytes(mine)) <= shared


def case_accumulation_weights_and_sparse_gradients_are_as_without_shards():
    def made(shard):
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [keras.Input((2,)), keras.layers.Embedding(9, 5), keras.layers.Flatten()]
        )
        optimizer = hvk.DistributedOptimizer(
            keras.optimizers.Adam(0.1), backward_passes_per_step=2, shard=shard, sparse_as_dense=True
        )
        model.compile(optimizer, "mse")
        x = np.random.default_rng(hvd.rank()).integers(0, 9, (16, 2))
        model.fit(x, np.ones((16, 10), "f"), batch_size=4, verbose=0)
        return model

    same_bits(made("optimizer"), made(None))


def case_a_saved_sharded_model_goes_on_on_any_number_of_ranks():
    made = OPTIMIZERS["ema"]
    sharded = fitted(hvk.DistributedOptimizer(made(), shard="optimizer"))
    dense = fitted(hvk.DistributedOptimizer(made()))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(hvd.broadcast_object(folder, 0))
        hvk.save_model(sharded, folder / "sharded.keras")
        hvk.save_model(dense, folder / "dense.keras")
        hvd.barrier()
        plain = keras.models.load_model(folder / "sharded.keras")  # as one rank would
        for one, two in zip(plain.optimizer.variables, dense.optimizer.variables, strict=True):
            np.testing.assert_array_equal(np.array(one), np.array(two), one.path)
        alone = hvk.load_model(folder / "sharded.keras")
        again = hvk.load_model(folder / "dense.keras", shard="optimizer")
        assert state_bytes(again.optimizer) == state_bytes(sharded.optimizer)
        hvd.barrier()
    for model in (alone, again, dense):
        model.fit(batches(2, rank=5), verbose=0)
    same_bits(alone, dense)
    same_bits(again, dense)
    wrong = {"0": np.zeros(())}
    with pytest.raises(ronde.InvalidArgumentError, match="has 1 variables; the sharded optimizer"):
        again.optimizer.load_own_variables(wrong)


def case_fit_broadcasts_models_with_sharded_optimizers():
    model = made_model()
    model.set_weights([w + hvd.rank() for w in model.get_weights()])
    model.compile(hvk.DistributedOptimizer(keras.optimizers.Adam(), shard="optimizer"), "mse")
    first = hvk.callbacks.BroadcastGlobalVariablesCallback(0)
    model.fit(batches(3), verbose=0, callbacks=[first])
    assert model.optimizer.check_replicas()
    for weight in model.get_weights():
        got = np.array(hvd.allgather(tf.constant(weight)[tf.newaxis]))
        np.testing.assert_array_equal(got[0], got[-1])


def case_what_cannot_be_sharded_is_refused_by_name():
    adam = keras.optimizers.Adam
    with pytest.raises(ronde.InvalidArgumentError, match='shard=.gradients.; allowed: "optimizer"'):
        hvk.DistributedOptimizer(adam(), shard="gradients")
    for optimizer, why in (
        (keras.optimizers.LossScaleOptimizer(adam()), "use mixed_bfloat16"),
        (keras.optimizers.Adafactor(), "other shapes"),
    ):
        with pytest.raises(ronde.UnsupportedError, match=f"{type(optimizer).__name__}.*{why}"):
            hvk.DistributedOptimizer(optimizer, shard="optimizer")
    with pytest.raises(ronde.UnsupportedError, match=r"shard='optimizer' with an optimizer of Tens"):
        hvd.DistributedOptimizer(tf.compat.v1.train.AdamOptimizer(), shard="optimizer")
    model = made_model()
    wrapped = hvk.DistributedOptimizer(adam(), shard="optimizer")
    model.compile(wrapped, "mse")
    wrapped.build(model.trainable_variables)
    with pytest.raises(ronde.InvalidArgumentError, match="no variables of one rank"):
        wrapped.register_local_var(model.trainable_variables[0])
    with pytest.raises(ronde.UnsupportedError, match="a KerasState cannot keep a sharded optimizer"):
        hvk.elastic.KerasState(model)
    with tempfile.TemporaryDirectory() as folder, pytest.raises(
        ronde.UnsupportedError, match=r"hvd\.save_model"
    ):
        tf.train.Checkpoint(optimizer=wrapped).save(f"{folder}/part")
