"""Trains on shares of different size: ranks that run out of data join, and the others go on.

Start it with `ronde run -np 3 -- python examples/train_uneven.py`. Rank r has r + 1 times as many
images as rank 0, and last batches differ: each step gives the number of its images, so that the
average is the mean over them. A rank without data calls join(): it has no weight in the others'
averages until all have joined, and learns who was last, whose model has seen every step.
"""

import sys

import ronde.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from tqdm import tqdm

EPOCHS = 4
BATCH = 24


def my_share():
    """Images and labels of this rank: rank r's share is r + 1 parts of all."""
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = hvd.size() * (hvd.size() + 1) // 2
    first = hvd.rank() * (hvd.rank() + 1) // 2
    each = len(labels) // parts
    mine = order[first * each : (first + hvd.rank() + 1) * each]
    return images[mine], labels[mine]


def main():
    hvd.init()
    torch.manual_seed(0)
    images, labels = my_share()
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    print(f"rank {hvd.rank()} has {len(labels)} images", flush=True)

    for epoch in range(EPOCHS):
        batches = torch.randperm(len(labels)).split(BATCH)
        progress = tqdm(batches, f"epoch {epoch + 1}", file=sys.stdout, ncols=72, unit="step",
                        disable=hvd.rank() != hvd.size() - 1)  # fmt: skip
        for batch in progress:
            optimizer.zero_grad()
            optimizer.set_weight(len(batch))
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        last = hvd.join()
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
        hvd.broadcast_optimizer_state(optimizer, root_rank=last)
    right = (model(images).argmax(dim=1) == labels).sum().to(torch.float64)
    counts = hvd.allreduce(torch.stack([right, torch.tensor(len(labels)).double()]), op=hvd.Sum)
    if hvd.rank() == 0:
        print(f"accuracy on all shares {float(counts[0] / counts[1]):.1%}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
