"""Trains a small Keras network on scikit-learn's handwritten digits by model.fit().

Start it with `ronde run -np 2 -- python examples/train_digits_keras.py`. Each rank trains on its
own share of the images; only rank 0 shows progress. With --target it ends with an error where the
accuracy on held-out images stays below that.
"""

import argparse
import sys

import keras
import numpy as np
import ronde.keras as hvd
from sklearn.datasets import load_digits


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
    return keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Reshape((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )


def main():
    arguments = parse_arguments()
    hvd.init()
    keras.utils.set_random_seed(hvd.rank())
    images, labels, test_images, test_labels = load_data()
    mine = slice(hvd.rank(), len(labels) // hvd.size() * hvd.size(), hvd.size())

    model = make_model()
    rate = arguments.learning_rate * hvd.size()  # for a batch that is so many times larger
    model.compile(
        optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(rate)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        images[mine],
        labels[mine],
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        verbose=1 if hvd.rank() == 0 else 0,
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2),
        ],
    )
    accuracy = model.evaluate(test_images, test_labels, verbose=0)[1]
    if hvd.rank() == 0:
        print(f"test accuracy {accuracy:.1%}", flush=True)
    hvd.shutdown()
    if accuracy < arguments.target:
        sys.exit(f"accuracy {accuracy:.1%} is below {arguments.target:.1%}")


if __name__ == "__main__":
    main()
