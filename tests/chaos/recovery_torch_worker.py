"""As recovery_worker.py, with PyTorch: half of the state is a model, half its momentum."""

from __future__ import annotations

import os
import time
from typing import Any

import ronde.torch as hvd
import torch

START = time.monotonic()
hvd.init()
torch.set_num_threads(1)
width = max(1, int((int(os.environ["STATE_BYTES"]) / 8 / 8) ** 0.5))
model = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
for parameter in model.parameters():  # so that there are moments
    parameter.grad = torch.zeros_like(parameter)
optimizer.step()
state = hvd.elastic.TorchState(model, optimizer, steps=0)
one = torch.ones(16)


@hvd.elastic.run
def train(state: Any) -> None:
    first = True
    while True:
        hvd.allreduce(one, name="one")
        if first:
            size = f"size {hvd.size()} pid {os.getpid()}"
            print(f"FIRST {time.monotonic()} {size} since {START}", flush=True)
        first = False
        state.steps += 1
        state.commit()
        time.sleep(0.001)


train(state)
