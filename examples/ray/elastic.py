"""Counts 300 steps on all slots of a Ray cluster; workers and nodes may die and join meanwhile.

python examples/ray/elastic.py [ADDRESS]: of a cluster, such as "auto"; else Ray starts here.
"""

import sys
import time

import numpy as np
import ray
import ronde
import ronde.elastic
from ronde.ray import ElasticRayExecutor


def job():
    ronde.init()
    state = ronde.elastic.ArrayState(weights=np.zeros(4), step=0)

    @ronde.elastic.run
    def train(state):
        while state.step < 300:
            state.weights += ronde.allreduce(np.ones(4), name="gradient")
            state.step += 1
            time.sleep(0.05)
            state.commit()

    train(state)
    return f"rank {ronde.rank()} of {ronde.size()}: {state.weights[0]:.0f} steps"


if __name__ == "__main__":
    ray.init(*sys.argv[1:])
    settings = ElasticRayExecutor.create_settings(min_num_proc=2)
    executor = ElasticRayExecutor(settings)
    executor.start()
    print("\n".join(executor.run(job)))
