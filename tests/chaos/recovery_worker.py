"""Trains without end and prints when the first operation of each epoch has ended, by the clock that
all processes of a host share."""

from __future__ import annotations

import os
import time

import numpy as np
import ronde
import ronde.elastic

START = time.monotonic()
ronde.init()
state = ronde.elastic.ArrayState(
    weights=np.zeros(int(os.environ["STATE_BYTES"]) // 4, np.float32), steps=0
)
one = np.ones(16, np.float32)


@ronde.elastic.run
def train(state: ronde.elastic.ArrayState) -> None:
    first = True
    while True:
        ronde.allreduce(one, name="one")
        if first:
            size = f"size {ronde.size()} pid {os.getpid()}"
            print(f"FIRST {time.monotonic()} {size} since {START}", flush=True)
        first = False
        state.steps += 1
        state.commit()
        time.sleep(0.001)


train(state)
