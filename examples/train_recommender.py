"""Trains a recommender whose tables of users and items are dealt over the ranks.

Start it with `ronde run -np 4 -- python examples/train_recommender.py`. Each rank has its own part
of the ratings. A `ShardedEmbedding` has row i on rank i % N alone: a lookup asks each owner once
for each different index, the backward pass sends it the sum of the gradients, and the owner's
SparseAdam updates the rows that were used. The small network on top is averaged as usual. Ratings
are made up: hidden tastes of users and items, with a few items that everybody rates.
"""

import argparse

import ronde.torch as hvd
import torch
from torch import nn

USERS, ITEMS, WIDTH = 1_000, 20_000, 16


class Recommender(nn.Module):
    """The rating of an item by a user."""

    def __init__(self):
        """Makes the tables, and the network on top."""
        super().__init__()
        self.users = hvd.ShardedEmbedding(USERS, WIDTH)
        self.items = hvd.ShardedEmbedding(ITEMS, WIDTH)
        self.top = nn.Sequential(nn.Linear(3 * WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, users, items):
        """Predicts ratings."""
        u, i = self.users(users), self.items(items)
        return self.top(torch.cat([u, i, u * i], dim=1)).squeeze(1)


def ratings(count, seed):
    """Users, items and ratings: items by Zipf's law, ratings by tastes that are the same always."""
    tastes = torch.Generator().manual_seed(1)
    of_users = torch.randn(USERS, 2, generator=tastes)
    of_items = torch.randn(ITEMS, 2, generator=tastes)
    drawn = torch.Generator().manual_seed(seed)
    users = torch.randint(USERS, (count,), generator=drawn)
    ranked = torch.rand(count, generator=drawn).pow(-1.5).clamp(max=ITEMS)
    items = ranked.long() - 1
    noise = 0.1 * torch.randn(count, generator=drawn)
    return users, items, (of_users[users] * of_items[items]).sum(1) + noise


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=512)
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(0)
    model = Recommender()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # of `top`: tables stay
    tables = [*model.users.parameters(), *model.items.parameters()]
    sparse = torch.optim.SparseAdam(tables, lr=0.02)
    dense = hvd.DistributedOptimizer(
        torch.optim.Adam(model.top.parameters(), lr=0.005), model.top.named_parameters()
    )
    users, items, wanted = ratings(40_000, seed=10 + hvd.rank())
    for step in range(options.steps):
        batch = torch.randint(len(users), (options.batch,))
        sparse.zero_grad()
        dense.zero_grad()
        loss = nn.functional.mse_loss(model(users[batch], items[batch]), wanted[batch])
        loss.backward()
        sparse.step()
        dense.step()
        if (step + 1) % 100 == 0:
            mean = hvd.allreduce(loss.detach(), name="loss")
            if hvd.rank() == 0:
                print(f"step {step + 1}: loss {mean:.3f}", flush=True)

    with torch.no_grad():
        users, items, wanted = ratings(4_000, seed=0)
        error = nn.functional.mse_loss(model(users, items), wanted)
    rows = len(model.users.weight) + len(model.items.weight)
    print(f"rank {hvd.rank()} keeps {rows} of {USERS + ITEMS} rows", flush=True)
    if hvd.rank() == 0:
        print(
            f"error on new ratings {error:.3f}, of always the mean {wanted.var():.3f}", flush=True
        )
    hvd.shutdown()


if __name__ == "__main__":
    main()
