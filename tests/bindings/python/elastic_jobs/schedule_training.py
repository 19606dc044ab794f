"""Training as the scripts of Horovod's elastic tests do it: by a schedule of hosts and exits.

At the end of each epoch rank 0 appends a line of JSON to the log. The discovery script counts
these lines. If the schedule changes the hosts then, rank 0 waits until it is told, as Horovod's
scripts do.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("framework", choices=["numpy", "torch", "tensorflow", "keras"])
parser.add_argument("--package", default="ronde", help="ronde or horovod")
parser.add_argument("--log", type=Path, required=True)
parser.add_argument("--hosts", type=json.loads, default=[], help="[[epoch or null, hosts], ...]")
parser.add_argument("--exits", type=json.loads, default={}, help='{"epoch batch": ranks}')
parser.add_argument("--exit-by", choices=["exception", "kill"], default="exception")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--epoch-seconds", type=float, default=0)
parser.add_argument("--batches-per-commit", type=int, default=1)
arguments = parser.parse_args()
BATCHES = 10
LR = 0.001

start_rank: list[int] = []  # the first rank of this process


def start(hvd: Any) -> None:
    hvd.init()
    start_rank.append(int(os.environ["HOROVOD_RANK"]))


def exit_if_planned(state: Any) -> None:
    """The ranks of the plan fail, by the numbers that they started with."""
    if start_rank[0] not in arguments.exits.get(f"{state.epoch} {state.batch}", []):
        return
    if arguments.exit_by == "exception":
        raise RuntimeError(f"planned exit at {state.epoch}, {state.batch}")
    os.kill(os.getpid(), signal.SIGKILL)


def log(state: Any, hvd: Any) -> None:
    line = {
        "epoch": state.epoch,
        "batch": state.batch,
        "commits": state.commits,
        "hostname": os.environ.get("HOROVOD_HOSTNAME"),
        "start_rank": start_rank[0],
        "rank": hvd.rank(),
        "size": hvd.size(),
        "rendezvous": state.rendezvous,
    }
    with arguments.log.open("a") as file:
        file.write(json.dumps(line) + "\n")


def hosts_at(epoch: int) -> Any:
    planned = {step: hosts for step, hosts in arguments.hosts if step is not None}
    last = arguments.hosts[-1][1] if arguments.hosts else []
    return planned.get(epoch, last)


def end_epoch(state: Any, hvd: Any) -> None:
    """Logs the epoch on rank 0, which waits for a planned change of hosts for 3 s at most."""
    if hvd.rank() == 0:
        log(state, hvd)
        if hosts_at(state.epoch) != hosts_at(state.epoch + 1):
            end = time.monotonic() + 3
            while state._host_messages.empty():
                if time.monotonic() > end:
                    raise TimeoutError("not told of the hosts' change")
                time.sleep(0.1)
    time.sleep(arguments.epoch_seconds)


def train_by_hand(hvd: Any, state: Any, step: Any) -> None:
    """The loop of Horovod's scripts for PyTorch and TensorFlow 2."""

    @hvd.elastic.run
    def train(state: Any) -> None:
        state.rendezvous += 1
        while state.epoch < arguments.epochs:
            while state.batch < BATCHES:
                exit_if_planned(state)
                step()
                state.batch += 1
                if state.batch % arguments.batches_per_commit == 0:
                    state.commits += 1
                    state.commit()
            end_epoch(state, hvd)
            state.epoch += 1
            state.batch = 0
            state.commits += 1
            state.commit()

    train(state)


def with_numpy() -> None:
    import numpy as np
    import ronde as hvd

    importlib.import_module("ronde.elastic")
    start(hvd)
    state = hvd.elastic.ArrayState(weights=np.zeros(4), batch=0, epoch=0, commits=0, rendezvous=0)

    def step() -> None:
        state.weights += hvd.allreduce(np.ones(4), name="gradient")

    train_by_hand(hvd, state, step)


def with_torch() -> None:
    import torch

    hvd = importlib.import_module(f"{arguments.package}.torch")
    start(hvd)
    inputs = torch.randn(32, 2)
    target = torch.randint(0, 2, (32,))
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), target).backward()
        optimizer.step()

    def on_state_reset() -> None:
        for group in optimizer.param_groups:
            group["lr"] = LR * hvd.size()

    state = hvd.elastic.TorchState(model, optimizer, batch=0, epoch=0, commits=0, rendezvous=0)
    state.register_reset_callbacks([on_state_reset])
    train_by_hand(hvd, state, step)
    assert optimizer.param_groups[0]["lr"] == LR * hvd.size()


def with_tensorflow() -> None:
    import tensorflow as tf

    hvd = importlib.import_module(f"{arguments.package}.tensorflow")
    start(hvd)
    inputs, target = tf.random.uniform([32, 2]), tf.one_hot(tf.zeros([32], tf.int64), 2)
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, activation="softmax")])
    optimizer = tf.optimizers.SGD(LR * hvd.size())

    @tf.function
    def step(allreduce: bool = True) -> None:
        with tf.GradientTape() as tape:
            loss = tf.losses.categorical_crossentropy(target, model(inputs, training=True))
        if allreduce:
            tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    step(allreduce=False)

    def on_state_reset() -> None:
        optimizer.learning_rate.assign(LR * hvd.size())

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):  # as Horovod's script does
        signal.signal(number, lambda *_: None)
    state = hvd.elastic.TensorFlowKerasState(
        model, optimizer, batch=0, epoch=0, commits=0, rendezvous=0
    )
    state.register_reset_callbacks([on_state_reset])
    train_by_hand(hvd, state, step)


def with_keras() -> None:
    import keras
    import tensorflow as tf

    hvd = importlib.import_module(f"{arguments.package}.tensorflow.keras")
    start(hvd)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, activation="softmax")])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(LR * hvd.size()))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    data = tf.random.uniform([32, 2]), tf.random.uniform([32, 1], 0, 2, tf.int64)
    dataset = tf.data.Dataset.from_tensor_slices(data).cache().repeat().batch(32)
    model.fit(dataset, steps_per_epoch=1, verbose=0)
    state = hvd.elastic.KerasState(model, batch=0, epoch=0, commits=0, rendezvous=0)

    def on_state_reset() -> None:
        state.model.optimizer.learning_rate.assign(LR * hvd.size())
        state.model.fit(dataset, steps_per_epoch=1, verbose=0)

    state.register_reset_callbacks([on_state_reset])

    class Schedule(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            exit_if_planned(state)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            end_epoch(state, hvd)

    class CountingCommits(hvd.elastic.CommitStateCallback):
        def commit(self) -> None:
            self.state.commits += 1
            super().commit()

    callbacks = [
        Schedule(),
        hvd.elastic.UpdateEpochStateCallback(state),
        hvd.elastic.UpdateBatchStateCallback(state),
        CountingCommits(state, arguments.batches_per_commit),
    ]

    @hvd.elastic.run
    def train(state: Any) -> None:
        state.rendezvous += 1
        state.model.fit(
            dataset,
            steps_per_epoch=BATCHES,
            callbacks=callbacks,
            epochs=arguments.epochs - state.epoch,
            verbose=0,
        )

    train(state)


trainings = {
    "numpy": with_numpy,
    "torch": with_torch,
    "tensorflow": with_tensorflow,
    "keras": with_keras,
}
trainings[arguments.framework]()
