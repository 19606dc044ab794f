"""Times ronde.tensorflow against MultiWorkerMirroredStrategy (RING), by turns in one job.

usage: ronde run -np 2 -- python tests/bench/tensorflow_step.py [--rounds 10] [--steps 10]

Prints, by rank 0: the median time of a training step of a small CNN and of a 30-layer dense model
with each, and without any communication; and that of one 4 KB allreduce in a tf.function, of an
empty tf.function, and of the same allreduce by the engine, which a blocking call from NumPy drives
in its own thread.
"""

import argparse
import json
import os
import statistics
import time

import ronde

ronde.init()
PORT = int(ronde.broadcast_object(20000 + os.getpid() % 20000))
WORKERS = [f"127.0.0.1:{PORT + rank}" for rank in range(ronde.size())]
os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": {"worker": WORKERS}, "task": {"type": "worker", "index": ronde.rank()}}
)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import ronde.tensorflow as hvd  # noqa: E402
import tensorflow as tf  # noqa: E402


def cnn():
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


def dense():
    middle = [keras.layers.Dense(256, activation="relu") for _ in range(29)]
    return keras.Sequential([keras.layers.Input((256,)), *middle, keras.layers.Dense(10)])


def batch(model):
    shape = (32, *model.input_shape[1:])
    generator = np.random.default_rng(ronde.rank())
    images = tf.constant(generator.normal(size=shape).astype("f"))
    return images, tf.constant(generator.integers(0, 10, 32))


def gradients_of(model, images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    return tape, loss


def apply(model, gradients):
    for gradient, variable in zip(gradients, model.trainable_variables):
        variable.value.assign_sub(0.001 * gradient)


def alone(make):
    model = make()
    data = batch(model)

    @tf.function
    def step():
        tape, loss = gradients_of(model, *data)
        apply(model, tape.gradient(loss, model.trainable_variables))

    return step


def with_ronde(make):
    model = make()
    data = batch(model)

    @tf.function
    def step():
        tape, loss = gradients_of(model, *data)
        tape = hvd.DistributedGradientTape(tape)
        apply(model, tape.gradient(loss, model.trainable_variables))

    return step


def with_strategy(make, strategy):
    with strategy.scope():
        model = make()
    data = batch(model)

    def replica():
        tape, loss = gradients_of(model, *data)
        gradients = tape.gradient(loss, model.trainable_variables)
        context = tf.distribute.get_replica_context()
        apply(model, context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients))

    return tf.function(lambda: strategy.run(replica))


def median_us(functions, rounds, steps):
    """The median of each function's time, taken in turns."""
    times = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(3):
            function()
    for _ in range(rounds):
        for name, function in functions.items():
            ronde.barrier()
            for _ in range(steps):
                start = time.perf_counter()
                function()
                times[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(found) for name, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    results = {}
    for name, make in (("cnn", cnn), ("dense30", dense)):
        steps = {
            "alone": alone(make),
            "ronde": with_ronde(make),
            "strategy": with_strategy(make, strategy),
        }
        results[name] = median_us(steps, arguments.rounds, arguments.steps)
    tensor, array = tf.ones(1024), np.ones(1024, np.float32)
    reduce = tf.function(hvd.allreduce)
    nothing = tf.function(tf.identity)
    small = {
        "engine": lambda: ronde.allreduce(array, name="array"),
        "function": lambda: reduce(tensor),
        "empty_function": lambda: nothing(tensor),
    }
    results["allreduce_4KB"] = median_us(small, arguments.rounds, 20 * arguments.steps)
    if ronde.rank() == 0:
        for name, found in results.items():
            print(name, {key: round(value, 1) for key, value in found.items()}, flush=True)
    ronde.barrier()


if __name__ == "__main__":
    main()
