"""Trains a small network on handwritten digits with Hugging Face Accelerate over Ronde.

Start it with `ronde run -np 2 -- python examples/train_accelerate.py`, or by torchrun. It is an
ordinary script of Accelerate: only the backend's name is Ronde's (PyTorch 2.5 and newer find it by
themselves). Needs `pip install accelerate scikit-learn`.
"""

import argparse
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and step")
    parser.add_argument("--target", type=float, default=0, help="least accuracy at the end, 0-1")
    return parser.parse_args()


def load_data():
    """Returns the images to train on and those to test with, alike on all ranks."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:-360], order[-360:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def accuracy_of(accelerator, model, batches):
    """Share of right answers over all ranks; each image counts once."""
    right = []
    with torch.no_grad():
        for images, labels in batches:
            answers = model(images).argmax(dim=1)
            right.append(accelerator.gather_for_metrics(answers == labels))
    return torch.cat(right).float().mean().item()


def main():
    arguments = parse_arguments()
    over_ronde = InitProcessGroupKwargs(backend="ronde")
    accelerator = Accelerator(cpu=True, kwargs_handlers=[over_ronde])
    set_seed(0)
    train, test = load_data()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    model, optimizer, batches, tests = accelerator.prepare(
        model,
        optimizer,
        DataLoader(train, arguments.batch_size, shuffle=True),
        DataLoader(test, arguments.batch_size),
    )
    for epoch in range(arguments.epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(images), labels))
            optimizer.step()
        accuracy = accuracy_of(accelerator, model, tests)
        accelerator.print(f"epoch {epoch + 1}: test accuracy {accuracy:.1%}", flush=True)
    accelerator.end_training()
    if accuracy < arguments.target:
        sys.exit(f"accuracy {accuracy:.1%} is below {arguments.target:.1%}")


if __name__ == "__main__":
    main()
