"""Trains a small model on handwritten digits for 500 steps of one global batch size.

Prints the loss over all digits at the end. SEED draws the model and the order of the digits;
STEP_SECONDS is a pause after each step.
"""

from __future__ import annotations

import os
import time
from typing import Any

import ronde.torch as hvd
import torch
from sklearn.datasets import load_digits

STEPS, BATCH = 500, 60
seed, pause = int(os.environ["SEED"]), float(os.environ["STEP_SECONDS"])

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(seed)
digits = load_digits()
inputs = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), op=hvd.Sum
)
loss_of = torch.nn.CrossEntropyLoss(reduction="sum")


def own_indices(step: int) -> torch.Tensor:
    """This rank's part of the step's global batch."""
    generator = torch.Generator().manual_seed(1000 * seed + step)
    batch = torch.randint(0, len(labels), (BATCH,), generator=generator)
    return batch[hvd.rank() :: hvd.size()]


@hvd.elastic.run
def train(state: Any) -> None:
    while state.step < STEPS:
        indices = own_indices(state.step)
        optimizer.zero_grad()
        (loss_of(model(inputs[indices]), labels[indices]) / BATCH).backward()
        optimizer.step()
        state.step += 1
        state.sizes[hvd.size()] = state.sizes.get(hvd.size(), 0) + 1
        if hvd.rank() == 0:
            print(f"STEP {state.step}", flush=True)
        state.commit()
        time.sleep(pause)


state = hvd.elastic.TorchState(model, optimizer, step=0, sizes={})
train(state)
with torch.no_grad():
    loss = loss_of(model(inputs), labels).item() / len(labels)
print(f"LOSS {loss:.6f} steps by size {state.sizes}", flush=True)
