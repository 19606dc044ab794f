"""Horovod's schedules of elastic jobs: hosts come and go, ranks exit, and what is logged of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import finish
from support.volume import IS_ALL

HERE = Path(__file__).resolve().parent
TWO, BOTH = ["localhost:2"], ["localhost:2", "127.0.0.1:2"]


class Schedule:
    """Runs the training of one framework by schedules."""

    def __init__(self, framework, folder, alias):
        self.framework, self.folder, self.alias = framework, folder, alias

    def discovery_script(self, log, hosts):
        """Prints the hosts of the epoch, which is the number of lines in the log."""
        script = self.folder / "discover"
        lines = ["#!/bin/bash", f"epoch=$(cat {log} 2>/dev/null | wc -l)", "case $epoch in"]
        for epoch, names in hosts:
            printed = "; ".join(f"echo {name}" for name in names)
            lines.append(f"{'*' if epoch is None else epoch}) {printed};;")
        script.write_text("\n".join([*lines, "esac", ""]))
        script.chmod(0o755)
        return script

    def run(self, hosts=None, fixed=None, np=2, min_np=2, max_np=4, options=(), **training):
        """(exit status, output, lines of the log)."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        command = [str(Path(sys.executable).parent / "horovodrun"), "-np", str(np)]
        command += ["--min-num-proc", str(min_np), "--log-level", "WARNING", *options]
        if fixed:
            command += ["-H", fixed]
        else:
            script = self.discovery_script(log, hosts)
            command += ["--host-discovery-script", str(script), "--max-num-proc", str(max_np)]
        command += ["--horovod"] if self.alias else []
        command += [sys.executable, str(HERE / "schedule_training.py"), self.framework]
        command += ["--log", str(log), "--package", "horovod" if self.alias else "ronde"]
        for name, value in {**training, "hosts": hosts or []}.items():
            text = value if isinstance(value, str) else json.dumps(value)
            command += [f"--{name.replace('_', '-')}", text]
        process = subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        status, output = finish(process)
        lines = log.read_text().splitlines() if log.exists() else []
        return status, output, [json.loads(line) for line in lines]


KINDS = ["numpy"]
if IS_ALL:
    KINDS += ["torch", "tensorflow", "keras", "horovod.torch", "horovod.tensorflow"]


def schedule_of(kind, folder):
    package, _, framework = kind.rpartition(".")
    if framework in ("tensorflow", "keras"):
        pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")
    return Schedule(framework, folder, package == "horovod")


@pytest.fixture(params=KINDS)
def schedule(request, tmp_path):
    return schedule_of(request.param, tmp_path)


def check(outcome, *expected):
    """One line of the log for each: (start rank, size, rendezvous, host), None: any."""
    status, output, lines = outcome
    assert status == 0, output
    found = [
        tuple(line[name] for name in ("start_rank", "size", "rendezvous", "hostname"))
        for line in lines
    ]
    assert len(found) == len(expected), (found, output)
    for line, wanted in zip(found, expected):
        assert all(w is None or w == f for f, w in zip(line, wanted)), (found, output)


def grow_and_move(schedule, slots):
    """A host comes after the first epoch, and after the second one the first host goes."""
    first, second = f"localhost:{slots}", f"127.0.0.1:{slots}"
    hosts = [(0, [first]), (1, [first, second]), (None, [second])]
    outcome = schedule.run(hosts, np=slots, min_np=slots, max_np=2 * slots)
    check(
        outcome,
        (0, slots, 1, "localhost"),
        (0, 2 * slots, 2, "localhost"),
        (slots, slots, 3, "127.0.0.1"),
    )


@pytest.mark.parametrize("slots", [2, 1])
def test_hosts_are_added_and_removed(schedule, slots):
    grow_and_move(schedule, slots)


@pytest.mark.parametrize("kind", ["horovod.torch", "keras"])
def test_a_job_of_one_rank_grows_in_time(tmp_path, kind):
    """Frameworks take seconds to start; the script waits 3 s for the news."""
    grow_and_move(schedule_of(kind, tmp_path), 1)


FAILED = [(0, 4, 1, "localhost"), (2, 2, 2, "127.0.0.1"), (2, 2, 2, "127.0.0.1")]


def test_a_rank_fails(schedule):
    check(schedule.run([(None, BOTH)], exits={"1 0": [0]}), *FAILED)


def test_a_rank_of_fixed_hosts_is_killed(schedule):
    check(schedule.run(fixed=",".join(BOTH), exits={"1 0": [0]}, exit_by="kill"), *FAILED)


@pytest.mark.parametrize("ranks", [[0, 1, 2, 3], [0, 2]], ids=["all ranks", "a rank of each host"])
def test_the_job_fails_if_no_host_is_left(schedule, ranks):
    status, output, lines = schedule.run([(None, BOTH)], exits={"1 0": ranks})
    assert status == 1, output
    assert len(lines) == 1


def test_the_job_fails_if_too_few_ranks_are_left_for_too_long(schedule):
    outcome = schedule.run(
        [(None, BOTH)], np=4, min_np=4, exits={"1 0": [0]}, options=["--elastic-timeout", "1"]
    )
    assert outcome[0] not in (0, None), outcome[1]
    assert "--elastic-timeout" in outcome[1]


def test_resets_are_limited(schedule):
    hosts = [(0, TWO), (1, BOTH), (None, BOTH[1:])]
    status, output, lines = schedule.run(hosts, options=["--reset-limit", "1"])
    assert status not in (0, None), output
    assert "the job was reset 1 times (--reset-limit)" in output
    assert len(lines) == 2


def test_hosts_come_back_after_a_cooldown(schedule):
    outcome = schedule.run(
        [(None, BOTH)],
        exits={"1 0": [3], "3 0": [3]},
        epochs=5,
        epoch_seconds=0.25,
        options=["--blacklist-cooldown-range", "1", "2"],
    )
    later = (0, None, None)  # how soon the host is back depends on the machine
    check(outcome, (0, 4, 1), (0, 2, 2), later, later, later)
