"""RayExecutor on one Ray node of this machine. Most cases need RONDE_TEST_VOLUME=all."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import ronde
from bindings.python.ray_jobs import ray_cluster
from support.volume import ALL

pytest.importorskip("ray", reason="Ray is not installed: pip install 'ray[train,tune]'")

from ronde.ray import RayExecutor


@pytest.fixture(scope="module")
def folder():
    """A short path: Ray's sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="rr-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="module")
def node(folder):
    path = folder / "one"
    path.mkdir()
    with ray_cluster.one_node(path, cpus=4) as ray:
        yield ray


@pytest.fixture
def executor():
    made = []

    def make(**arguments):
        made.append(RayExecutor(RayExecutor.create_settings(), **arguments))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.shutdown()


def test_workers_are_the_ranks_of_one_job_and_a_killed_one_is_named(node, executor):
    job = executor(num_workers=2, env_vars={"COLOUR": "blue"})
    assert job.run(ray_cluster.place_and_sum) == [(0, 2, 0, 2.0), (1, 2, 1, 2.0)]
    assert job.run(ray_cluster.variable, ["COLOUR"]) == ["blue", "blue"]
    with pytest.raises(ronde.RankFailure, match=r"rank 1 of 2 \(pid \d+ on node ") as caught:
        job.run(ray_cluster.loop_until_killed, [1])
    address = node.util.get_node_ip_address()
    assert (caught.value.rank, caught.value.host) == (1, address)
    assert caught.value.pid > 0


@ALL
def test_a_process_that_a_worker_starts_can_take_its_place(node, executor):
    assert executor(num_workers=2).run(ray_cluster.sum_in_a_subprocess) == [["2.0", "2"]] * 2


@ALL
def test_an_exception_keeps_its_type_and_names_rank_and_node(node, executor):
    job = executor(num_workers=2)
    with pytest.raises(ValueError, match="bad batch") as caught:
        job.run(ray_cluster.raise_on_rank_1)
    if hasattr(caught.value, "__notes__"):
        assert "raised by rank 1 of 2 (pid" in caught.value.__notes__[0]


@ALL
def test_the_work_of_a_failed_function_never_meets_the_next_ones(node, executor):
    job = executor(num_workers=2)
    steps = [[1.0, 21.0, 41.0]] * 2
    for bad in (ray_cluster.raise_on_rank_1, ray_cluster.raise_with_work_in_flight):
        with pytest.raises(ValueError, match="bad batch"):
            job.run(bad)
        assert job.run(ray_cluster.steps) == steps
    assert job.run(ray_cluster.steps) == steps
    with pytest.raises(ValueError, match="bad batch"):
        job.execute(lambda held: ray_cluster.raise_on_rank_1())
    assert job.execute(lambda held: ray_cluster.steps()) == steps
    with pytest.raises(ValueError, match="alone"):
        job.execute_single(ray_cluster.raise_alone)
    assert job.run(ray_cluster.steps) == steps
    node.wait(job.run_remote(ray_cluster.raise_on_rank_1), num_returns=2)
    assert job.run(ray_cluster.steps) == steps


@ALL
def test_a_call_behind_one_that_fails_fails_and_a_busy_worker_is_named(node, executor):
    job = executor(num_workers=2)
    job.settings.timeout_s = 1
    job.run_remote(ray_cluster.raise_on_rank_1)
    with pytest.raises(ronde.Error):
        job.run(ray_cluster.steps)
    assert job.run(ray_cluster.steps) == [[1.0, 21.0, 41.0]] * 2
    with pytest.raises(ValueError, match="bad batch"):
        job.run(ray_cluster.raise_on_rank_1, kwargs={"busy_s": 8})
    with pytest.raises(ronde.TimeoutError, match=r"ranks 0 of 2 did not answer.*call shutdown\(\)"):
        job.run(ray_cluster.steps)


@ALL
def test_objects_of_workers_live_between_calls(node, executor):
    job = executor(num_workers=2)
    job.shutdown()
    job.start(executable_cls=dict, executable_kwargs={"a": 1})
    job.execute(lambda held: held.update(b=2))
    assert job.execute(lambda held: sorted(held)) == [["a", "b"]] * 2
    assert job.execute_single(lambda held: held["b"]) == 2


@ALL
def test_workers_that_find_no_room_are_a_timeout_that_says_what_is_free(node):
    settings = RayExecutor.create_settings(placement_group_timeout_s=2)
    with pytest.raises(ronde.TimeoutError, match=r"within 2 s.*64 x \{'CPU': 1\}; free.*'CPU': 4"):
        RayExecutor(settings, num_workers=64).start()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "num_workers=None, num_hosts=None: give one"),
        ({"num_workers": 2, "num_hosts": 1}, "give one"),
        ({"num_workers": 0}, "num_workers=0; allowed: whole numbers from 1"),
        ({"num_workers": 1, "gpus_per_worker": 1}, "gpus_per_worker=1 needs use_gpu"),
        ({"num_workers": 1, "cpus_per_worker": 0}, "cpus_per_worker=0; allowed"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, text):
    with pytest.raises(ValueError, match=text):
        RayExecutor(**arguments)


def test_calls_before_start_say_so():
    with pytest.raises(ronde.NotInitializedError, match=r"call start\(\) before"):
        RayExecutor(num_workers=1).run(print)
