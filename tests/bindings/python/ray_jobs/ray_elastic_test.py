"""ElasticRayExecutor on Ray nodes of this machine. Jobs need RONDE_TEST_VOLUME=all."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import ronde
from bindings.python.ray_jobs import ray_cluster
from support.volume import ALL

pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[train,tune]'")

from ronde.ray import ElasticRayExecutor, RayHostDiscovery

LIMIT_S = 120


@pytest.fixture
def folder():
    """A short path: Ray's sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="rr-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="class")
def node():
    """One node with two CPUs."""
    with (
        tempfile.TemporaryDirectory(prefix="rr-", dir="/tmp", ignore_cleanup_errors=True) as path,
        ray_cluster.one_node(Path(path), cpus=2) as ray,
    ):
        yield ray


def executor(**settings):
    made = ElasticRayExecutor(ElasticRayExecutor.create_settings(**settings))
    made.start()
    return made


def wait_for(path, ends):
    """Until the file is there, or the limit has passed."""
    while not path.exists() and time.monotonic() < ends:
        time.sleep(0.05)


def in_background(action):
    """Runs it in a thread, which the test joins."""
    thread = threading.Thread(target=action)
    thread.start()
    return thread


@ALL
def test_a_killed_worker_is_replaced_and_results_come_by_rank(folder):
    with ray_cluster.two_nodes(folder, cpus=2):
        job = executor(min_num_proc=4)
        found = job.run(ray_cluster.elastic_steps(folder, steps=100, size=4, victim=True))
    assert [rank for rank, *_ in found] == [0, 1, 2, 3]
    assert {size for _, size, *_ in found} == {4}
    assert all(steps >= 100 for *_, steps in found)
    assert (folder / "killed").exists()
    assert not list(Path(tempfile.gettempdir()).glob("ronde-ray-*"))


@ALL
def test_the_others_go_on_when_a_node_is_killed(folder):
    with ray_cluster.two_nodes(folder, cpus=2) as (cluster, second):
        ends = time.monotonic() + LIMIT_S

        def kill_node():
            wait_for(folder / "step20", ends)
            cluster.remove_node(second, allow_graceful=False)

        thread = in_background(kill_node)
        job = executor(min_num_proc=2)
        found = job.run(ray_cluster.elastic_steps(folder, steps=60, size=2))
        thread.join()
    assert [(rank, size) for rank, size, _ in found] == [(0, 2), (1, 2)]
    assert all(steps >= 60 for *_, steps in found)


@ALL
def test_a_node_that_joins_is_used(folder):
    with ray_cluster.two_nodes(folder, cpus=1) as (cluster, _):
        job = executor(min_num_proc=2, elastic_timeout=LIMIT_S)
        function = ray_cluster.elastic_steps(folder, steps=40, size=3)
        found = []
        thread = in_background(lambda: found.extend(job.run(function)))
        wait_for(folder / "step20", time.monotonic() + LIMIT_S)
        cluster.add_node(num_cpus=1)  # Ray wants the main thread
        thread.join()
    assert [(rank, size) for rank, size, _ in found] == [(0, 3), (1, 3), (2, 3)]


@ALL
class TestOneNode:
    """Jobs that share a node with two CPUs."""

    def test_the_error_of_the_function_is_raised_with_its_host(self, node):
        job = executor(min_num_proc=2, reset_limit=0)
        with pytest.raises(ronde.Error, match=r"(?s)on [\d.]+ failed:.*ValueError: bad batch"):
            job.run(ray_cluster.raise_on_rank_1)

    def test_too_few_slots_are_an_error_that_counts_them(self, node):
        job = executor(min_num_proc=3, elastic_timeout=2)
        with pytest.raises(ronde.UnavailableError, match="fewer than 3 slots for 2 s"):
            job.run(ray_cluster.place_and_sum)

    def test_the_example_of_the_guide_runs(self, node):
        address = node.get_runtime_context().gcs_address
        example = Path(__file__).resolve().parents[4] / "examples" / "ray" / "elastic.py"
        done = subprocess.run(
            [sys.executable, str(example), address],
            timeout=LIMIT_S,
            capture_output=True,
            text=True,
        )
        said = [f"rank {rank} of 2: 300 steps" for rank in range(2)]
        assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, said), done.stderr


@ALL
def test_nodes_are_hosts_with_slots(folder):
    with ray_cluster.two_nodes(folder, cpus=4):
        discovery = RayHostDiscovery(cpus_per_slot=2)
        hosts = discovery.find_available_hosts_and_slots()
        assert list(hosts.values()) == [2, 2]
        plain, with_id = sorted(hosts, key=len)  # of one machine
        assert with_id.startswith(f"{plain}-")
        assert RayHostDiscovery(cpus_per_slot=5).find_available_hosts_and_slots() == {}
        assert RayHostDiscovery(use_gpu=True).find_available_hosts_and_slots() == {}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"min_num_proc": 0}, "min_num_proc=0; allowed: whole numbers from 1"),
        ({"min_num_proc": 3, "max_num_proc": 2}, "max_num_proc=2; allowed: whole numbers from 3"),
        ({"elastic_timeout": 0}, "elastic_timeout=0; allowed"),
        ({"reset_limit": -1}, "reset_limit=-1; allowed"),
        ({"cooldown_range": [1]}, r"cooldown_range=\[1\]; allowed: MIN, MAX"),
        ({"nics": ["a", "b"]}, "ranks use one network interface"),
    ],
)
def test_settings_that_make_no_sense_are_named(settings, text):
    with pytest.raises(ValueError, match=text):
        ElasticRayExecutor.create_settings(**settings)


def test_arguments_that_make_no_sense_are_named():
    with pytest.raises(ValueError, match="gpus_per_slot=1 needs use_gpu"):
        ElasticRayExecutor(gpus_per_slot=1)
    with pytest.raises(ValueError, match=r"settings\.discovery is None"):
        ElasticRayExecutor(override_discovery=False)
    with pytest.raises(ronde.NotInitializedError, match=r"call start\(\) before"):
        ElasticRayExecutor().run(print)
    with pytest.warns(DeprecationWarning, match="min_num_proc"):
        assert ElasticRayExecutor.create_settings(min_np=2).min_num_proc == 2
