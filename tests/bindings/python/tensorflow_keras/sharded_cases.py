"""Cases for optimizers of Keras that each rank has a part of: DistributedOptimizer(shard=...)."""

import functools
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import pytest
import ronde
import ronde.keras as hvk
import ronde.tensorflow as hvd
import tensorflow as tf
from ronde._membership import epochs

NEEDS = "tensorflow"
RANKS = (2,)
OPTIONS = ("--horovod",)


def made_model():
    """Variables of odd sizes, one with a constraint."""
    keras.utils.set_random_seed(7)
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(37, activation="tanh"),
            keras.layers.Dense(11, use_bias=False),
            keras.layers.Dense(1, kernel_constraint=keras.constraints.MaxNorm(0.5)),
        ]
    )


def batches(steps):
    x = np.random.default_rng(hvd.rank()).normal(size=(4 * steps, 3)).astype("f")
    return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(4)


def stepped(optimizer, variables, steps=3):
    """Makes steps with gradients that differ between ranks."""
    for step in range(steps):
        random = np.random.default_rng([hvd.rank(), step])
        gradients = [tf.constant(random.normal(size=v.shape), v.dtype) for v in variables]
        optimizer.apply(gradients, variables)


def same_bits(variables, others):
    for one, two in zip(variables, others, strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(two), one.path)


def total_bytes(variables):
    return sum(np.array(variable).nbytes for variable in variables)


@contextmanager
def shared_folder():
    """A folder of rank 0, for all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(hvd.broadcast_object(folder, 0))
        hvd.barrier()


def schedule():
    return keras.optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)


def adamw():
    optimizer = keras.optimizers.AdamW(schedule(), weight_decay=0.1, clipnorm=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.05),
    "momentum, clipvalue": lambda: keras.optimizers.SGD(0.05, 0.9, nesterov=True, clipvalue=0.1),
    "Adam, global_clipnorm": lambda: keras.optimizers.Adam(0.05, amsgrad=True, global_clipnorm=0.1),
    "AdamW, clipnorm": adamw,
    "RMSprop": lambda: keras.optimizers.RMSprop(0.05, momentum=0.9, centered=True),
    "Nadam": lambda: keras.optimizers.Nadam(0.05),
    "Muon": lambda: keras.optimizers.Muon(0.05),
    "ema": lambda: keras.optimizers.Adam(0.05, use_ema=True, ema_overwrite_frequency=2),
}


@functools.cache
def fitted(shard):
    """A model that model.fit() has trained, by a compiled step."""
    model = made_model()
    optimizer = keras.optimizers.AdamW(
        schedule(), global_clipnorm=0.1, use_ema=True, ema_overwrite_frequency=3
    )
    model.compile(hvk.DistributedOptimizer(optimizer, shard=shard), "mse")
    model.fit(batches(4), verbose=0)
    return model


def case_each_optimizer_has_the_bits_of_dense_training():
    for name, made in OPTIMIZERS.items():
        passes = [{"backward_passes_per_step": 3}] if "AdamW" in name else []
        for options in ({}, *passes):
            dense, sharded = made_model(), made_model()
            optimizer = hvd.DistributedOptimizer(made(), shard="optimizer", **options)
            stepped(optimizer, sharded.trainable_variables)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)  # leaves out one rank's
            stepped(hvk.DistributedOptimizer(made(), **options), dense.trainable_variables)
            try:
                same_bits(sharded.variables, dense.variables)
            except AssertionError as error:
                raise AssertionError(f"{name}, {options}: {error}") from None


def case_fit_has_the_bits_of_dense_training_and_ends_with_averages():
    same_bits(fitted("optimizer").variables, fitted(None).variables)


def case_each_rank_has_the_state_of_its_variables_alone():
    model = fitted("optimizer")
    mine, dense = model.optimizer, fitted(None).optimizer
    whole = np.array(hvd.allgather(tf.constant([total_bytes(mine.variables)])))
    shared = 16  # the number of steps, on each rank
    assert abs(whole.sum() - total_bytes(dense.variables)) <= shared
    largest = 3 * 11 * 37 * 4  # a variable with its means is not cut
    assert whole.max() <= total_bytes(dense.variables) / hvd.size() + largest
    assert whole.max() < 0.8 * total_bytes(dense.variables)
    memory = {"parameters": total_bytes(model.variables), "state": whole[hvd.rank()]}
    assert abs(mine.memory_bytes()["state"] - memory["state"]) <= shared
    assert mine.memory_bytes()["parameters"] == memory["parameters"]


def case_a_saved_sharded_model_goes_on_on_any_number_of_ranks():
    sharded, dense = fitted("optimizer"), fitted(None)
    with shared_folder() as folder:
        hvk.save_model(sharded, folder / "sharded.keras")
        hvk.save_model(dense, folder / "dense.keras")
        hvd.barrier()
        plain = keras.models.load_model(folder / "sharded.keras")  # as one rank would
        same_bits(plain.optimizer.variables, dense.optimizer.variables)
        again = hvk.load_model(folder / "dense.keras", shard="optimizer")
        assert total_bytes(again.optimizer.variables) == total_bytes(sharded.optimizer.variables)
    alone = hvk.DistributedOptimizer(plain.optimizer)
    stepped(alone, plain.trainable_variables)
    stepped(again.optimizer, again.trainable_variables)
    same_bits(again.variables, plain.variables)
    with pytest.raises(ronde.InvalidArgumentError, match="has 1 variables; the sharded optimizer"):
        again.optimizer.load_own_variables({"0": np.zeros(())})


def case_what_cannot_be_sharded_is_refused_by_name():
    adam = keras.optimizers.Adam
    with pytest.raises(ronde.InvalidArgumentError, match=r"shard=.gradients.; allowed: .optim"):
        hvk.DistributedOptimizer(adam(), shard="gradients")
    with (
        mock.patch.object(epochs, "available", return_value=True),
        pytest.raises(ronde.UnsupportedError, match="an elastic job would lose the state"),
    ):
        hvk.DistributedOptimizer(adam(), shard="optimizer")
    for optimizer, why in (
        (keras.optimizers.LossScaleOptimizer(adam()), "use mixed_bfloat16"),
        (keras.optimizers.Adafactor(), "other shapes"),
    ):
        with pytest.raises(ronde.UnsupportedError, match=f"{type(optimizer).__name__}.*{why}"):
            hvk.DistributedOptimizer(optimizer, shard="optimizer")
    with pytest.raises(ronde.UnsupportedError, match=r"shard='optimizer' with an optimizer of"):
        hvd.DistributedOptimizer(tf.compat.v1.train.AdamOptimizer(), shard="optimizer")
    model = made_model()
    wrapped = hvk.DistributedOptimizer(adam(), shard="optimizer")
    model.compile(wrapped, "mse")
    wrapped.build(model.trainable_variables)
    with pytest.raises(ronde.InvalidArgumentError, match="no variables of one rank"):
        wrapped.register_local_var(model.trainable_variables[0])
    with pytest.raises(ronde.UnsupportedError, match="KerasState cannot keep a sharded optimizer"):
        hvk.elastic.KerasState(model)
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.raises(ronde.UnsupportedError, match=r"hvd\.save_model"),
    ):
        tf.train.Checkpoint(optimizer=wrapped).save(f"{folder}/part")


def case_fit_broadcasts_and_keeps_the_best_of_models_with_sharded_optimizers():
    model = fitted("optimizer")
    model.set_weights([w + hvd.rank() for w in model.get_weights()])
    with shared_folder() as folder:
        best = folder / "best.keras"
        callbacks = [
            hvk.callbacks.BroadcastGlobalVariablesCallback(0),
            hvk.callbacks.MetricAverageCallback(),
            hvk.callbacks.BestModelCheckpoint("loss", filepath=str(best)),
        ]
        model.fit(batches(3), verbose=0, epochs=2, callbacks=callbacks)
        hvd.barrier()
        assert best.exists()
    assert model.optimizer.check_replicas()
    for weight in model.get_weights():
        got = np.array(hvd.allgather(tf.constant(weight)[tf.newaxis]))
        np.testing.assert_array_equal(got[0], got[-1])


class Monitored(keras.callbacks.Callback):
    """A metric that improves on the last rank, and on the others gets worse."""

    def on_train_batch_end(self, batch, logs=None):
        logs["other"] = -batch if hvd.rank() == hvd.size() - 1 else batch

    def on_epoch_end(self, epoch, logs=None):
        self.on_train_batch_end(epoch, logs)


def case_the_best_is_what_the_first_rank_finds_the_best():
    model = fitted("optimizer")
    with shared_folder() as folder:
        for freq, ending in (("epoch", ".keras"), (1, ".weights.h5")):
            best = hvk.callbacks.BestModelCheckpoint(
                "other",
                mode="min",
                save_freq=freq,
                save_weights_only=freq == 1,
                filepath=f"{folder}/{{other}}{ending}",
            )
            model.fit(batches(2), verbose=0, epochs=2, callbacks=[Monitored(), best])
        hvd.barrier()
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["0.keras", "0.weights.h5"]
        model.load_weights(folder / "0.weights.h5")


def case_files_that_cannot_be_written_are_errors_and_nothing_hangs():
    model = fitted("optimizer")
    for name in ("m.h5", "m.weights.h5"):
        with pytest.raises(ronde.InvalidArgumentError, match=rf"{name}.*allowed: .* \.keras"):
            hvk.save_model(model, name)
        best = hvk.callbacks.BestModelCheckpoint("loss", filepath=name)
        with pytest.raises(ronde.InvalidArgumentError, match=rf"{name}.*allowed: .* \.keras"):
            model.fit(batches(1), verbose=0, callbacks=[best])
    with shared_folder() as folder:
        if hvd.rank() == 0:
            with pytest.raises(FileNotFoundError):
                hvk.save_model(model, folder / "missing" / "m.keras")
        else:
            hvk.save_model(model, folder / "missing" / "m.keras")


def case_the_first_rank_of_the_process_set_writes():
    last = hvd.add_process_set([hvd.size() - 1])
    model = made_model()
    optimizer = hvk.DistributedOptimizer(
        keras.optimizers.Adam(), shard="optimizer", process_set=last
    )
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    best = hvk.callbacks.BestModelCheckpoint("loss")
    best.set_model(model)
    with shared_folder() as folder:
        hvk.save_model(model, folder / f"{hvd.rank()}.keras")
        best.filepath = str(folder / f"best {hvd.rank()}.keras")
        best.on_epoch_end(0, {"loss": 1.0})
        hvd.barrier()
        names = sorted(path.name for path in folder.iterdir())
        assert names == [f"{hvd.size() - 1}.keras", f"best {hvd.size() - 1}.keras"]
    hvd.remove_process_set(last)


def case_momentum_follows_the_learning_rate():
    made = []
    for shard in ("optimizer", None):
        model = made_model()
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        model.compile(hvk.DistributedOptimizer(optimizer, shard=shard), "mse")
        warmup = hvk.callbacks.LearningRateWarmupCallback(0.05, warmup_epochs=1)
        model.fit(batches(3), verbose=0, callbacks=[warmup])
        made.append(model)
    same_bits(*(model.variables for model in made))
