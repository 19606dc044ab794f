"""Trains a mixture of experts on handwritten digits: one expert on each rank.

Start it with `ronde run -np 4 -- python examples/train_moe.py`. A router sends each image to its
best expert (`--top 2`: to the best two): an alltoall whose counts differ between ranks at each
step. The counts travel in the same call, and gradients flow back by the same ways. Router and rest
are averaged by DistributedOptimizer. An expert has the gradients of all ranks already: it is
divided by their number, and updated where it is.
"""

import argparse

import ronde.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

WIDTH = 64


class MixtureOfExperts(nn.Module):
    """A layer of as many experts as ranks, of which this rank has one."""

    def __init__(self, width, top=1):
        """top: the experts that an image goes to."""
        super().__init__()
        self.top = top
        self.router = nn.Linear(width, hvd.size())
        self.expert = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        for parameter in self.expert.parameters():
            parameter.register_hook(lambda gradient: gradient / hvd.size())

    def forward(self, x):
        """Adds what the experts make of each row."""
        shares, experts = self.router(x).softmax(dim=1).topk(self.top, dim=1)
        order = experts.flatten().argsort()
        counts = torch.bincount(experts.flatten(), minlength=hvd.size())
        sent = x.repeat_interleave(self.top, dim=0)[order]
        mine, received = hvd.alltoall(sent, counts, name="tokens")
        answers, _ = hvd.alltoall(self.expert(mine), received, name="answers")
        unsorted = answers[order.argsort()].reshape(len(x), self.top, -1)
        self.balance = self._balance(x, experts)
        return x + (unsorted * shares[:, :, None]).sum(dim=1)

    def _balance(self, x, experts):
        """A loss that is least where experts get equally much, as in the Switch Transformer."""
        routed = torch.bincount(experts[:, 0], minlength=hvd.size()) / len(x)
        return hvd.size() * (routed * self.router(x).softmax(dim=1).mean(dim=0)).sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--top", type=int, default=1)
    options = parser.parse_args()

    hvd.init()
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    train, test = torch.randperm(len(labels)).split([1500, len(labels) - 1500])
    train = train[hvd.rank() :: hvd.size()][: 1500 // hvd.size()]
    layer = MixtureOfExperts(WIDTH, min(options.top, hvd.size()))
    model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), layer, nn.Linear(WIDTH, 10))
    shared = {n: p for n, p in model.named_parameters() if ".expert." not in n}
    hvd.broadcast_parameters(shared, root_rank=0)
    dense = hvd.DistributedOptimizer(torch.optim.Adam(shared.values(), lr=0.01), shared.items())
    expert = torch.optim.Adam(layer.expert.parameters(), lr=0.01)

    for epoch in range(options.epochs):
        for batch in train[torch.randperm(len(train))].split(100):
            dense.zero_grad()
            expert.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            (loss + 0.01 * layer.balance).backward()
            dense.step()
            expert.step()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}", flush=True)
    with torch.no_grad():
        right = (model(images[test]).argmax(dim=1) == labels[test]).float().mean()
    if hvd.rank() == 0:
        print(f"accuracy with {hvd.size()} experts {right:.1%}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
