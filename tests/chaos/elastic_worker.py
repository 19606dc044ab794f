"""Counts each sample of a data set once an epoch, whatever happens to the job.

Prints "RESULT ok" once all have been counted as often as they should be, "WRONG ..." for a sum that
is not what it must be.
"""

from __future__ import annotations

import os
import random
import time

import numpy as np
import ronde
import ronde.elastic

SAMPLES, EPOCHS, BATCH = 211, int(os.environ.get("CHAOS_EPOCHS", "6")), 5

ronde.init()
state = ronde.elastic.ArrayState(
    counts=np.zeros(SAMPLES),
    weights=np.zeros(int(os.environ.get("CHAOS_WEIGHTS", "1000")), np.float32),
    sampler=ronde.elastic.ExactSampler(SAMPLES, seed=3),
    steps=0,
)


def wrong(what: str) -> None:
    print(f"WRONG {what} at step {state.steps} of rank {ronde.rank()}", flush=True)


def step(mine: list[int]) -> None:
    """Counts this rank's samples, and takes a step whose result does not depend on the ranks."""
    counts = np.zeros(SAMPLES)
    counts[mine] = 1
    state.counts += ronde.allreduce(counts, op=ronde.Sum, name="counts")
    if not (ronde.allreduce(np.ones(77), op=ronde.Sum, name="ones") == ronde.size()).all():
        wrong("sum of ones")
    state.weights += ronde.allreduce(np.full_like(state.weights, state.steps % 8), name="weights")
    state.steps += 1
    time.sleep(random.random() * 0.02)


@ronde.elastic.run
def train(state: ronde.elastic.ArrayState) -> None:
    while state.sampler.epoch < EPOCHS:
        sampler = state.sampler
        mine = list(sampler)
        while sampler.processed_num < sampler.length:
            step(mine[:BATCH])
            del mine[:BATCH]
            sampler.record_batch(0, BATCH)
            state.commit()
        sampler.set_epoch(sampler.epoch + 1)


train(state)
if not (state.counts == EPOCHS).all():
    wrong(f"counts of samples: {np.unique(state.counts).tolist()}, not {EPOCHS}")
elif not (state.weights == sum(i % 8 for i in range(state.steps))).all():
    wrong("weights")
else:
    print(f"RESULT ok after {state.steps} steps", flush=True)
