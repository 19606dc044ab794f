"""A Ray cluster of this test alone, and the functions that its workers run."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ray_folder(path: Path):
    """Ray keeps its files, and the token of its cluster, below `path`."""
    import ray

    (path / "ray").mkdir()
    # Workers find no module of the tests.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    own = {"RAY_TMPDIR": str(path), "RAY_AUTH_TOKEN": "0" * 64, "RAY_DEDUP_LOGS": "0"}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


@contextmanager
def one_node(path, cpus):
    """Ray on one node, inside this process's job."""
    import ray

    with ray_folder(path):
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 << 20,
        )
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def two_nodes(path, cpus):
    """Ray on two nodes of `cpus` each; yields (cluster, the node that may be removed)."""
    import ray
    from ray.cluster_utils import Cluster

    with ray_folder(path):
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=cpus, include_dashboard=False)
            second = cluster.add_node(num_cpus=cpus)
            ray.init(address=cluster.address, log_to_driver=False)
            yield cluster, second
        finally:
            ray.shutdown()
            cluster.shutdown()


def sum_in_a_subprocess():
    """As a script that starts another one, which takes the rank's place."""
    import subprocess

    code = (
        "import numpy as np, ronde; ronde.init(); "
        "print(ronde.allreduce(np.ones(1), op=ronde.Sum)[0], ronde.size())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=480)
    return run.stdout.split() or run.stderr


def place_and_sum():
    """(rank, size, local rank, sum of 1 over all ranks)."""
    import numpy as np
    import ronde

    ronde.init()
    total = ronde.allreduce(np.ones(4), op=ronde.Sum, name="ones")
    return ronde.rank(), ronde.size(), int(os.environ["LOCAL_RANK"]), float(total[0])


def variable(name):
    """Its value in the worker's environment."""
    return os.environ.get(name)


def loop_until_killed(victim):
    """Rank `victim` kills itself; the others allreduce on. victim: -1 for none."""
    import numpy as np
    import ronde

    ronde.init()
    for step in range(2_000):
        if step == 3 and ronde.rank() == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        ronde.allreduce(np.ones(4), name="loop")
        time.sleep(0.02)


def raise_on_rank_1(busy_s=0):
    """Rank 1 raises ValueError, and the others wait for it in an operation.

    busy_s: seconds for which they do something else before.
    """
    import numpy as np
    import ronde

    ronde.init()
    if ronde.rank() == 1:
        raise ValueError("bad batch")
    time.sleep(busy_s)
    ronde.allreduce(np.full(4, 1e6))


def raise_with_work_in_flight():
    """Rank 1 raises ValueError; the others return, and leave an operation in flight."""
    import numpy as np
    import ronde

    ronde.init()
    ronde.allreduce(np.ones(1))
    ronde.allreduce_async(np.full(1, 1e6))
    if ronde.rank() == 1:
        raise ValueError("bad batch")


def raise_alone(held):
    """Raises ValueError."""
    raise ValueError("alone")


def steps():
    """The sums of 10 * step + rank for three steps."""
    import numpy as np
    import ronde

    ronde.init()
    mine = [np.array([10.0 * step + ronde.rank()]) for step in range(3)]
    return [float(ronde.allreduce(each, op=ronde.Sum)[0]) for each in mine]


def elastic_steps(folder, steps, size, victim=False):
    """A function for elastic workers: (rank, size, steps) at the end.

    It goes on until it has done so many steps, and has so many ranks. Step 20 makes the file
    "step20". victim: one worker kills itself there, once ("killed").
    """

    def train(state):
        import numpy as np
        import ronde

        while state.step < steps or ronde.size() != size:
            total = ronde.allreduce(np.ones(4), op=ronde.Sum, name="ones")
            assert total[0] == ronde.size()
            state.step += 1
            if state.step == 20 and ronde.rank() == ronde.size() - 1:
                (folder / "step20").touch()
                if victim and not (folder / "killed").exists():
                    (folder / "killed").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
            state.commit()
        return ronde.rank(), ronde.size(), state.step

    def job():
        import ronde
        import ronde.elastic

        ronde.init()
        return ronde.elastic.run(train)(ronde.elastic.ObjectState(step=0))

    return job
