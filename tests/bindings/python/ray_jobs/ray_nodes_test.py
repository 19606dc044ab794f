"""Ronde's jobs on two Ray nodes of this machine, and in Ray Train and Ray Tune."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

import pytest
import ronde
from bindings.python.ray_jobs import ray_cluster
from support.volume import ALL

pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[train,tune]'")

from ronde.ray import RayExecutor

pytestmark = [pytest.mark.slow, ALL]


@pytest.fixture
def folder():
    """A short path: Ray's sockets lie below it."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with tempfile.TemporaryDirectory(prefix="rr-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield Path(path)


def test_two_nodes_are_one_job_and_a_killed_node_is_named(folder):
    job = RayExecutor(num_hosts=2, num_workers_per_host=2)
    with ray_cluster.two_nodes(folder, cpus=2) as (cluster, second):
        job.start()
        places = job.run(ray_cluster.place_and_sum)
        assert places == [(rank, 4, rank % 2, 4.0) for rank in range(4)]
        timer = threading.Timer(1, cluster.remove_node, [second], {"allow_graceful": False})
        timer.start()
        with pytest.raises(ronde.RankFailure, match=f"Ray node {second.node_id[:12]}"):
            job.run(ray_cluster.loop_until_killed, [-1])
        timer.join()
        job.shutdown()


def train_on_both_interfaces(config):
    """Writes rank, size and sums by ronde.torch and by torch.distributed."""
    import ronde.torch as hvd
    import torch
    import torch.distributed as dist

    total = hvd.allreduce(torch.ones(2), op=hvd.Sum)
    other = torch.ones(2)
    if dist.is_initialized():
        dist.all_reduce(other)
    path = Path(config["folder"]) / f"rank{hvd.rank()}"
    path.write_text(f"{hvd.size()} {total.tolist()} {other.tolist()} {dist.is_initialized()}")


@pytest.mark.parametrize("joined", [True, False])
def test_workers_of_ray_train_are_one_job(folder, joined):
    pytest.importorskip("ray.train.torch", reason="Ray Train is not installed")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer
    from ronde.ray import RondeConfig

    with ray_cluster.one_node(folder, cpus=3):
        trainer = TorchTrainer(
            train_on_both_interfaces,
            train_loop_config={"folder": str(folder)},
            scaling_config=ScalingConfig(num_workers=2),
            torch_config=RondeConfig(torch_distributed=joined),
            run_config=RunConfig(storage_path=str(folder / "runs")),
        )
        assert trainer.fit().error is None
    other = "[2.0, 2.0] True" if joined else "[1.0, 1.0] False"
    for rank in range(2):
        assert (folder / f"rank{rank}").read_text() == f"2 [2.0, 2.0] {other}"


def trial(config):
    """A job of two workers in the room of this trial."""
    from ray import tune

    job = RayExecutor(num_workers=2)
    job.start()
    ranks = job.run(ray_cluster.place_and_sum)
    job.shutdown()
    tune.report({"total": sum(total for *_, total in ranks) * config["factor"]})


def test_four_trials_of_ray_tune_run_at_once_with_two_workers_each(folder):
    tune = pytest.importorskip("ray.tune", reason="Ray Tune is not installed")
    with ray_cluster.one_node(folder, cpus=12):
        room = tune.PlacementGroupFactory([{"CPU": 1}] * 3)  # the trial itself, and two workers
        results = tune.Tuner(
            tune.with_resources(trial, room),
            param_space={"factor": tune.grid_search([1, 2, 3, 4])},
            run_config=tune.RunConfig(storage_path=str(folder / "runs")),
        ).fit()
    assert not results.errors
    assert sorted(result.metrics["total"] for result in results) == [4, 8, 12, 16]
