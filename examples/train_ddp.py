"""Trains a small network on scikit-learn's handwritten digits with PyTorch's own DDP over Ronde.

Start it with `ronde run -np 2 -- python examples/train_ddp.py`, or with
`torchrun --nproc-per-node 2 examples/train_ddp.py`. It is an ordinary DDP script: only the import
and the backend's name are Ronde's. With --target it ends with an error where the accuracy on
held-out images stays below that.
"""

import argparse
import sys

import ronde.torch.distributed  # noqa: F401  (registers the backend)
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from tqdm import tqdm


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="ronde", help="gloo, to compare")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="images per rank and step")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--target", type=float, default=0, help="least accuracy at the end, 0-1")
    return parser.parse_args()


def load_data():
    """Returns the images to train on and those to test with, alike on all ranks."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:-360], order[-360:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def make_model():
    """A small convolutional network for 8x8 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def train_epoch(model, optimizer, batches):
    """One pass over this rank's batches; returns the mean loss over all ranks."""
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    mean = torch.stack(losses).mean() / dist.get_world_size()
    dist.all_reduce(mean)
    return mean.item()


@torch.no_grad()
def accuracy_of(model, data):
    """Share of right answers; each rank tests its part of the images."""
    images, labels = (part[dist.get_rank() :: dist.get_world_size()] for part in data.tensors)
    right = (model(images).argmax(dim=1) == labels).sum()
    counts = torch.tensor([right.item(), len(labels)], dtype=torch.float64)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def main():
    arguments = parse_arguments()
    dist.init_process_group(arguments.backend)
    torch.manual_seed(dist.get_rank())  # DDP starts all ranks from rank 0's weights
    train, test = load_data()
    sampler = DistributedSampler(train)
    loader = DataLoader(train, arguments.batch_size, sampler=sampler)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)

    speaks = dist.get_rank() == 0
    if speaks:
        print(
            f"{dist.get_world_size()} ranks, {len(train)} images to train on, {len(test)} to test"
        )
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        progress = tqdm(loader, f"epoch {epoch + 1}", file=sys.stdout, disable=not speaks,
                        ncols=72, unit="step")  # fmt: skip
        loss = train_epoch(model, optimizer, progress)
        accuracy = accuracy_of(model, test)
        if speaks:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, test accuracy {accuracy:.1%}", flush=True)
    dist.destroy_process_group()
    if accuracy < arguments.target:
        sys.exit(f"accuracy {accuracy:.1%} is below {arguments.target:.1%}")


if __name__ == "__main__":
    main()
