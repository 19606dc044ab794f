"""Trains a model with PyTorch and counts each sample once an epoch, whatever happens to the job.

Prints "RESULT ok" once all have been counted as often as they should be, "WRONG ..." for a sum or a
model that is not what it must be. CHAOS_EPOCHS: the epochs.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import ronde.torch as hvd
import torch

SAMPLES, EPOCHS, BATCH = 97, int(os.environ.get("CHAOS_EPOCHS", "5")), 4


class Counting(torch.nn.Module):
    """A small model. Its buffer has the number of times that each sample was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
        )
        self.register_buffer("counts", torch.zeros(SAMPLES))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


hvd.init()
torch.manual_seed(hvd.rank())  # sync() makes the models equal
torch.set_num_threads(1)
inputs = torch.linspace(-1, 1, SAMPLES * 6).reshape(SAMPLES, 6)
targets = inputs.sum(1, keepdim=True)
model = Counting()
optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
sampler = hvd.elastic.ExactSampler(SAMPLES, seed=3)


def wrong(what: str, state: Any) -> None:
    print(f"WRONG {what} at step {state.steps} of rank {hvd.rank()}", flush=True)


def step(indices: torch.Tensor, state: Any) -> None:
    optimizer.zero_grad()
    (model(inputs[indices]) - targets[indices]).square().mean().backward()
    optimizer.step()
    seen = torch.zeros(SAMPLES)
    seen[indices] = 1
    model.counts += hvd.allreduce(seen, op=hvd.Sum, name="counts")
    state.steps += 1
    time.sleep(random.random() * 0.02)


def check_models(state: Any) -> None:
    """All ranks have the same model and moments after each epoch."""
    moments = optimizer.state_dict()["state"]
    tensors = [*model.state_dict().values(), *(m["momentum_buffer"] for m in moments.values())]
    mine = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
    low = hvd.allreduce(mine, op=hvd.Min, name="low")
    high = hvd.allreduce(mine, op=hvd.Max, name="high")
    if not torch.equal(low, high):
        wrong("models differ", state)
    ones = hvd.allreduce(torch.ones(77), op=hvd.Sum, name="ones")
    if not torch.equal(ones, torch.full((77,), float(hvd.size()))):
        wrong("sum of ones", state)


@hvd.elastic.run
def train(state: Any) -> None:
    while sampler.epoch < EPOCHS:
        loader = torch.utils.data.DataLoader(range(SAMPLES), batch_size=BATCH, sampler=sampler)
        for number, indices in enumerate(loader):
            step(indices, state)
            sampler.record_batch(number, BATCH)
            state.commit()
        hvd.join()
        state.sync()
        check_models(state)
        sampler.set_epoch(sampler.epoch + 1)


state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, steps=0)
train(state)
if not (model.counts == EPOCHS).all():
    wrong(f"counts of samples: {model.counts.unique().tolist()}, not {EPOCHS}", state)
elif (loss := (model(inputs) - targets).square().mean()) > 3:  # 12 at first
    wrong(f"loss {loss:.3f}", state)
else:
    print(f"RESULT ok after {state.steps} steps", flush=True)
