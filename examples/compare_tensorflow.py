"""Compares what communication adds to a TensorFlow step: Ronde, and MultiWorkerMirroredStrategy.

Start it with `ronde run -np 2 -- python examples/compare_tensorflow.py`. Both train the same models
in the same processes, as graphs with plain SGD, and take turns step by step, so that noise of the
machine hits them alike. A step lasts from the first rank's begin to the last one's end, on the
clock that the processes of a host share. Exposed time is what it takes longer than one without
communication. At the end the weights of all ways to train are compared. The strategy uses its ring,
as it comes and with each gradient sent by itself.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time

import numpy as np
import ronde
from tqdm import tqdm

MODELS = ("cnn", "dense30", "dense250")
CHAIN = 20  # allreduces, one after the other, in one graph


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--models", default=",".join(MODELS[:2]), help=f"of {', '.join(MODELS)}, with commas"
    )
    parser.add_argument("--rounds", type=int, default=40, help="steps of each way to train")
    parser.add_argument("--rows", type=int, default=64, help="of a batch, on each rank")
    parser.add_argument("--calls", type=int, default=2000, help="4 KB allreduces that are timed")
    arguments = parser.parse_args()
    unknown = set(arguments.models.split(",")) - set(MODELS)
    if unknown:
        parser.error(
            f"--models: no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}"
        )
    return arguments


def name_workers():
    """Tells TensorFlow, which must not have been used yet, of the strategy's workers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        workers = ronde.allgather_object(f"127.0.0.1:{free.getsockname()[1]}")
    task = {"type": "worker", "index": ronde.rank()}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})


def make_model(tf, name):
    """A small convolutional network, or thirty dense layers, or 250 thin ones, of 28x28 images."""
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    if name == "cnn":
        inner = [
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Flatten(),
        ]
    else:
        depth, units = (30, 256) if name == "dense30" else (250, 64)
        inner = [layers.Dense(units, activation="relu") for _ in range(depth - 1)]
    return tf.keras.Sequential([layers.Input((784,)), *inner, layers.Dense(10)])


def trainer(tf, model, averaged):
    """One step as a graph; `averaged(tape, loss, weights)` are the gradients to apply."""
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        weights = [variable.value for variable in model.trainable_variables]
        for weight, gradient in zip(weights, averaged(tape, loss, weights)):
            weight.assign_sub(0.01 * gradient)
        return loss

    return step


def ways_to_train(tf, name, strategy):
    """name -> (model, step)."""
    import ronde.tensorflow as hvd

    def local(tape, loss, weights):
        return tape.gradient(loss, weights)

    def by_ronde(tape, loss, weights):
        return hvd.DistributedGradientTape(tape).gradient(loss, weights)

    def by_strategy(options):
        def averaged(tape, loss, weights):
            gradients = tape.gradient(loss, weights)
            context = tf.distribute.get_replica_context()
            # Under a strategy Keras' loss is already divided by the number of workers.
            return context.all_reduce(tf.distribute.ReduceOp.SUM, gradients, options)

        return averaged

    def options(**pack):
        ring = tf.distribute.experimental.CommunicationImplementation.RING
        return tf.distribute.experimental.CommunicationOptions(implementation=ring, **pack)

    result = {}
    for way, averaged in (("no communication", local), ("ronde", by_ronde)):
        model = make_model(tf, name)
        result[way] = (model, trainer(tf, model, averaged))
    for way, given in (("strategy", options()), ("strategy, unpacked", options(bytes_per_pack=1))):
        model = make_model(tf, name)
        step = trainer(tf, model, by_strategy(given))

        @tf.function
        def replicated(images, labels, step=step):
            return strategy.run(step, args=(images, labels))

        result[way] = (model, replicated)
    return result


def seconds_of(step, batch):
    """Of one step, over all ranks of the host."""
    ronde.barrier()
    begin = time.perf_counter()
    step(*batch).numpy()
    mine = np.array([-begin, time.perf_counter()])
    return ronde.allreduce(mine, op=ronde.Max, name="seconds").sum()


def compare(tf, name, strategy, arguments):
    ways = ways_to_train(tf, name, strategy)
    random = np.random.default_rng(ronde.rank())
    times = {way: [] for way in ways}
    rounds = tqdm(range(arguments.rounds + 3), name, file=sys.stdout, ncols=72,
                  disable=ronde.rank() != 0)  # fmt: skip
    for number in rounds:
        images = tf.constant(random.random((arguments.rows, 784), np.float32))
        labels = tf.constant(random.integers(0, 10, arguments.rows))
        for way, (_, step) in ways.items():
            took = seconds_of(step, (images, labels))
            if number >= 3:
                times[way].append(took)
    if ronde.rank() == 0:
        print_times(name, ways, times)


def print_times(name, ways, times):
    weights = {way: np.concatenate([w.ravel() for w in ways[way][0].get_weights()]) for way in ways}
    size = weights["ronde"].nbytes / 1e6
    print(f"{name}: {ronde.size()} ranks, {size:.1f} MB of gradients, medians")
    for way, taken in times.items():
        alone = times["no communication"]
        exposed = statistics.median(t - a for t, a in zip(taken, alone))
        apart = np.abs(weights[way] - weights["ronde"]).max()
        print(
            f"  {way:19} step {statistics.median(taken) * 1e3:7.2f} ms, exposed "
            f"{exposed * 1e3:7.2f} ms, weights within {apart:.1e} of ronde's",
            flush=True,
        )


def time_small(tf, calls):
    """What one 4 KB allreduce takes in a graph, and by the engine itself, in turns."""
    import ronde.tensorflow as hvd

    @tf.function
    def in_graph(tensor):
        for number in range(CHAIN):
            tensor = hvd.allreduce(tensor, op=hvd.Average, name=f"small.{number}")
        return tensor

    @tf.function
    def empty(tensor):
        for _ in range(CHAIN):
            tensor = tf.tanh(tensor)
        return tensor

    tensor, array = tf.ones(1024), np.ones(1024, np.float32)

    def by_engine():
        for _ in range(CHAIN):
            ronde.allreduce(array, op=ronde.Average, name="engine")

    taken = {
        "in a tf.function": [],
        "a hyperbolic tangent instead": [],
        "ronde.allreduce of NumPy": [],
    }
    runs = (lambda: in_graph(tensor), lambda: empty(tensor), by_engine)
    for number in range(calls // CHAIN + 3):
        for times, run in zip(taken.values(), runs):
            ronde.barrier()
            begin = time.perf_counter()
            run()
            if number >= 3:
                times.append((time.perf_counter() - begin) / CHAIN)
    if ronde.rank() == 0:
        print("4 KB allreduce, one after the other, medians")
        for way, times in taken.items():
            print(f"  {way:28} {statistics.median(times) * 1e6:7.1f} us", flush=True)


def main():
    arguments = parse_arguments()
    ronde.init()
    name_workers()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    import ronde.tensorflow as hvd

    hvd.init()
    for name in arguments.models.split(","):
        compare(tf, name, strategy, arguments)
    time_small(tf, arguments.calls)
    sys.stdout.flush()
    ronde.shutdown()
    os._exit(0)  # the strategy's threads do not end by themselves


if __name__ == "__main__":
    main()
