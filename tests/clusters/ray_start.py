"""Measures RayExecutor from its workers' being alive to the end of their first allreduce.

    python tests/clusters/ray_start.py [--nodes 1] [--workers 4] [--rounds 15]

Ray runs on one node or two nodes of this machine. Each round has new workers. Prints medians and
quartiles in milliseconds, also of one call of all workers that does nothing: Ray's own share.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bindings.python.ray_jobs import ray_cluster
from ronde.ray import RayExecutor
from ronde.ray._group import WorkerGroup


class TimedGroup(WorkerGroup):
    """Notes when all workers have said where they are: they are alive."""

    alive_at = 0.0

    def _find(self, *arguments):
        super()._find(*arguments)
        self.alive_at = time.monotonic()


def one_round(nodes: int, workers: int) -> dict[str, float]:
    """Seconds of each part."""
    executor = RayExecutor(num_hosts=nodes, num_workers_per_host=workers // nodes)
    executor._group = group = TimedGroup()
    executor.start()
    entered = time.monotonic()
    ranks = executor.run(ray_cluster.place_and_sum)
    summed = time.monotonic()
    assert [total for *_, total in ranks] == [float(workers)] * workers
    executor.run(time.monotonic)
    ended = time.monotonic()
    executor.shutdown()
    return {
        "alive to first allreduce": summed - group.alive_at,
        "  told their ranks": entered - group.alive_at,
        "  init() and allreduce": summed - entered,
        "a call that does nothing": ended - summed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, choices=(1, 2), default=1)
    parser.add_argument("--workers", type=int, default=4, help="a multiple of --nodes")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    made = ray_cluster.one_node if options.nodes == 1 else ray_cluster.two_nodes
    layout = (options.nodes, options.workers)
    # A short path: Ray's sockets lie below it.
    with (
        tempfile.TemporaryDirectory(prefix="rr-", dir="/tmp", ignore_cleanup_errors=True) as path,
        made(Path(path), cpus=options.workers // options.nodes),
    ):
        one_round(*layout)  # Ray starts its processes
        rounds = [one_round(*layout) for _ in range(options.rounds)]
    for part in rounds[0]:
        low, middle, high = statistics.quantiles([1000 * one[part] for one in rounds], n=4)
        print(f"{part}: {middle:.0f} ms ({low:.0f} to {high:.0f})", flush=True)


if __name__ == "__main__":
    main()
