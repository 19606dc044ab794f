"""Trains a small network on scikit-learn's handwritten digits, data-parallel over all ranks.

Start it with `ronde run -np 2 --timeline trace.json -- python examples/train_digits.py`. Each rank
trains on its own share of the images; gradients are averaged while backward still runs. With
--target it ends with an error where the accuracy on held-out images stays below that.
"""

import argparse
import sys

import ronde.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
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
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:-360], order[-360:]
    return images[train], labels[train], images[test], labels[test]


def make_model():
    """A small convolutional network for 8x8 images."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def share(count, epoch):
    """This rank's indices in this epoch: an equal share of all, newly shuffled."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1 + epoch))
    each = count // hvd.size()
    return order[hvd.rank() * each : (hvd.rank() + 1) * each]


def train_epoch(model, optimizer, images, labels, batches):
    """One pass over this rank's batches; returns the mean loss over all ranks."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return hvd.allreduce(torch.stack(losses).mean(), name="loss").item()


@torch.no_grad()
def accuracy_of(model, images, labels):
    """Share of right answers; each rank tests its part of the images."""
    mine = slice(hvd.rank(), None, hvd.size())
    right = (model(images[mine]).argmax(dim=1) == labels[mine]).sum()
    counts = torch.tensor([right.item(), len(labels[mine])], dtype=torch.float64)
    right, total = hvd.allreduce(counts, op=hvd.Sum, name="accuracy").tolist()
    return right / total


def main():
    arguments = parse_arguments()
    hvd.init()
    torch.manual_seed(hvd.rank())
    images, labels, test_images, test_labels = load_data()

    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    # All ranks start from rank 0's weights.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    speaks = hvd.rank() == 0
    if speaks:
        print(f"{hvd.size()} ranks, {len(labels)} images to train on, {len(test_labels)} to test")
    for epoch in range(arguments.epochs):
        batches = share(len(labels), epoch).split(arguments.batch_size)
        progress = tqdm(batches, f"epoch {epoch + 1}", file=sys.stdout, disable=not speaks,
                        ncols=72, unit="step")  # fmt: skip
        loss = train_epoch(model, optimizer, images, labels, progress)
        accuracy = accuracy_of(model, test_images, test_labels)
        if speaks:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, test accuracy {accuracy:.1%}", flush=True)
    hvd.shutdown()
    if accuracy < arguments.target:
        sys.exit(f"accuracy {accuracy:.1%} is below {arguments.target:.1%}")


if __name__ == "__main__":
    main()
