"""Models and their training, for the cases of DistributedOptimizer(shard=...)."""

import ronde.torch as hvd
import torch
from torch import nn

WAYS = ("optimizer", "gradients")


class Tied(nn.Module):
    """Odd shapes, tied weights, a scalar, an empty and a frozen parameter, channels last."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(37, 11)
        self.inner = nn.Linear(11, 301)
        self.back = nn.Linear(301, 11)
        self.frozen = nn.Linear(11, 11)
        self.frozen.requires_grad_(False)
        self.head = nn.Linear(11, 37, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.empty = nn.Parameter(torch.empty(0, 3))
        self.conv = nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)
        self.unused = nn.Linear(3, 3)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + self.frozen(self.back(torch.tanh(self.inner(x))))
        picture = x[..., :3].reshape(-1, 3, 1, 1).expand(-1, 3, 3, 3)
        return self.head(x * self.scale).sum() + self.conv(picture).pow(2).mean()


def tied():
    torch.manual_seed(0)
    return Tied()


def batch(step, part=0):
    generator = torch.Generator().manual_seed(100 * step + 10 * part + hvd.rank())
    return torch.randint(0, 37, (4, 6), generator=generator)


def groups_of(model):
    """Two groups with options of their own."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": matrices, "weight_decay": 0.01}, {"params": others, "lr": 0.002}]


MAKERS = {
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.01, momentum=0.9, nesterov=True),
    "Adam": lambda groups: torch.optim.Adam(groups, lr=0.01),
    "AMSGrad": lambda groups: torch.optim.Adam(groups, lr=0.01, amsgrad=True),
    "FusedAdam": lambda groups: torch.optim.Adam(groups, lr=0.01, fused=True),
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=0.01),
    "Adagrad": lambda groups: torch.optim.Adagrad(groups, lr=0.01),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, lr=0.01, momentum=0.5, centered=True),
    "Adamax": lambda groups: torch.optim.Adamax(groups, lr=0.01),
    "NAdam": lambda groups: torch.optim.NAdam(groups, lr=0.01),
    "RAdam": lambda groups: torch.optim.RAdam(groups, lr=0.01),
    "Adadelta": lambda groups: torch.optim.Adadelta(groups, lr=0.1),
    "ASGD": lambda groups: torch.optim.ASGD(groups, lr=0.01),
    "Rprop": lambda groups: torch.optim.Rprop(groups, lr=0.01),
}


def distributed(trained, make=MAKERS["Adam"], **options):
    return hvd.DistributedOptimizer(
        make(groups_of(trained)), named_parameters=trained.named_parameters(), **options
    )


def train(model, optimizer, steps=3, passes=1, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        for part in range(passes):
            model(batch(step, part)).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def assert_same(found, expected):
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert ours.equal(theirs), (number, (ours - theirs).abs().max())


def assert_alike(tensors):
    for tensor in tensors:
        if tensor.numel():
            every = hvd.allgather(tensor.detach().reshape(1, -1).contiguous())
            assert (every == every[0]).all()
