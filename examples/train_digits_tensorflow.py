"""Trains a small TensorFlow network on scikit-learn's handwritten digits, by a loop of its own.

Start it with `ronde run -np 2 -- python examples/train_digits_tensorflow.py`. Each rank trains on
its own share of the images; the tape averages gradients over ranks. With --target it ends with an
error where the accuracy on held-out images stays below that.
"""

import argparse
import sys

import numpy as np
import ronde.tensorflow as hvd
import tensorflow as tf
from sklearn.datasets import load_digits
from tqdm import tqdm


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and step")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--target", type=float, default=0, help="least accuracy at the end, 0-1")
    return parser.parse_args()


def load_data():
    """Returns (train images, train labels, test images, test labels), alike on all ranks."""
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:-360], order[-360:]
    return images[train], digits.target[train], images[test], digits.target[test]


def make_model():
    """A small convolutional network for 8x8 images."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((64,)),
            layers.Reshape((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def make_step(model, optimizer):
    """One step of training, as a graph."""
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def share(count, epoch, size):
    """This rank's indices in this epoch, by batches: an equal share of all, newly shuffled."""
    order = np.random.default_rng(1 + epoch).permutation(count)
    mine = order[hvd.rank() : count // hvd.size() * hvd.size() : hvd.size()]
    return [mine[i : i + size] for i in range(0, len(mine) - size + 1, size)]


def accuracy_of(model, images, labels):
    """Share of right answers; each rank tests its part of the images."""
    mine = slice(hvd.rank(), None, hvd.size())
    right = np.argmax(model(images[mine]), axis=1) == labels[mine]
    counts = hvd.allreduce(tf.constant([right.sum(), right.size]), op=hvd.Sum, name="accuracy")
    return int(counts[0]) / int(counts[1])


def main():
    arguments = parse_arguments()
    hvd.init()
    tf.keras.utils.set_random_seed(hvd.rank())
    images, labels, test_images, test_labels = load_data()

    model = make_model()
    optimizer = tf.keras.optimizers.Adam(arguments.learning_rate)
    optimizer.build(model.trainable_variables)
    # All ranks start from rank 0's weights.
    hvd.broadcast_variables(model.variables + optimizer.variables, root_rank=0)
    step = make_step(model, optimizer)

    speaks = hvd.rank() == 0
    for epoch in range(arguments.epochs):
        batches = share(len(labels), epoch, arguments.batch_size)
        progress = tqdm(batches, f"epoch {epoch + 1}", file=sys.stdout, disable=not speaks,
                        ncols=72, unit="step")  # fmt: skip
        losses = [step(images[batch], labels[batch]) for batch in progress]
        loss = float(hvd.allreduce(tf.reduce_mean(losses), name="loss"))
        accuracy = accuracy_of(model, test_images, test_labels)
        if speaks:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, test accuracy {accuracy:.1%}", flush=True)
    hvd.shutdown()
    if accuracy < arguments.target:
        sys.exit(f"accuracy {accuracy:.1%} is below {arguments.target:.1%}")


if __name__ == "__main__":
    main()
