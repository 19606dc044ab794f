"""Trains a model with Keras and counts each sample once an epoch, whatever happens to the job.

Prints "RESULT ok" once all have been counted as often as they should be, "WRONG ..." for a sum or a
model that is not what it must be. CHAOS_EPOCHS: the epochs.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import ronde.tensorflow.keras as hvd
import tensorflow as tf

SAMPLES, EPOCHS, BATCH = 97, int(os.environ.get("CHAOS_EPOCHS", "5")), 4

hvd.init()
keras.utils.set_random_seed(1 + hvd.rank())  # sync() makes the models equal
inputs = np.linspace(-1, 1, SAMPLES * 6, dtype=np.float32).reshape(SAMPLES, 6)
targets = inputs.sum(1, keepdims=True)
layers = keras.layers
model = keras.Sequential([keras.Input((6,)), layers.Dense(16, activation="tanh"), layers.Dense(1)])
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.02, momentum=0.9))
model.compile(optimizer, "mse")
state = hvd.elastic.KerasState(
    model, sampler=hvd.elastic.ExactSampler(SAMPLES, seed=3), counts=np.zeros(SAMPLES), steps=0
)


def wrong(what: str) -> None:
    print(f"WRONG {what} at step {state.steps} of rank {hvd.rank()}", flush=True)


class Batches:
    """This rank's batches, as many as any other's. One without a sample weighs nothing."""

    def __init__(self) -> None:
        sampler = state.sampler
        own = list(sampler)
        together = BATCH * sampler.num_replicas
        self.count = -(-(SAMPLES - sampler.processed_num) // together)
        self.indices = [own[i * BATCH : (i + 1) * BATCH] for i in range(self.count)]

    def __iter__(self) -> Iterator[Any]:
        for indices in self.indices:
            padded = np.resize(indices or [0], BATCH)
            weights = np.zeros(BATCH, np.float32)
            weights[: len(indices)] = 1
            yield inputs[padded], targets[padded], weights

    def dataset(self) -> Any:
        shapes = [(BATCH, 6), (BATCH, 1), (BATCH,)]
        signature = tuple(tf.TensorSpec(shape, tf.float32) for shape in shapes)
        return tf.data.Dataset.from_generator(lambda: self, output_signature=signature)


class Counts(keras.callbacks.Callback):
    """Counts the samples of each batch on all ranks."""

    def __init__(self, batches: Batches) -> None:
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        seen = np.zeros(SAMPLES)
        seen[self.batches.indices[batch]] = 1
        state.counts += np.asarray(hvd.allreduce(seen, name="counts", op=hvd.Sum))
        state.sampler.record_batch(batch, BATCH)
        state.steps += 1
        time.sleep(random.random() * 0.02)


def check_models() -> None:
    """All ranks have the same model and moments after each epoch."""
    variables = [*model.variables, *model.optimizer.variables]
    mine = np.concatenate([np.asarray(v, np.float64).ravel() for v in variables])
    low = np.asarray(hvd.allreduce(mine, name="low", op=hvd.Min))
    high = np.asarray(hvd.allreduce(mine, name="high", op=hvd.Max))
    if not np.array_equal(low, high):
        wrong("models differ")


@hvd.elastic.run
def train(state: Any) -> None:
    while state.sampler.epoch < EPOCHS:
        batches = Batches()
        callbacks = [Counts(batches), hvd.elastic.CommitStateCallback(state)]
        if batches.count:
            data = batches.dataset()
            model.fit(data, steps_per_epoch=batches.count, callbacks=callbacks, verbose=0)
        check_models()
        state.sampler.set_epoch(state.sampler.epoch + 1)
        state.commit()


train(state)
if not (state.counts == EPOCHS).all():
    wrong(f"counts of samples: {np.unique(state.counts).tolist()}, not {EPOCHS}")
elif (
    loss := float(np.square(model.predict(inputs, verbose=0) - targets).mean())
) > 3:  # 12 at the start
    wrong(f"loss {loss:.3f}")
else:
    print(f"RESULT ok after {state.steps} steps", flush=True)
