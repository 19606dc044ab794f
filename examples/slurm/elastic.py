"""Counts 300 steps on all ranks there are; goes on from its checkpoint when it starts again."""

import sys
import time

import numpy as np
import ronde
import ronde.elastic

ronde.init()
state = ronde.elastic.ArrayState(weights=np.zeros(4), step=0)
state.checkpoint(sys.argv[1] if len(sys.argv) > 1 else "ronde-elastic-checkpoint", every=10)


@ronde.elastic.run
def train(state):
    """One allreduce a step; a rank that is asked to leave does so in commit()."""
    if ronde.rank() == 0:
        print(f"from step {state.step} on, {ronde.size()} ranks", flush=True)
    while state.step < 300:
        state.weights += ronde.allreduce(np.ones(4), name="gradient")
        state.step += 1
        time.sleep(0.05)
        state.commit()


train(state)
if ronde.rank() == 0:
    print(f"{state.weights[0]:.0f} steps done", flush=True)
