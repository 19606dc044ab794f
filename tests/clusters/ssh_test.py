"""Jobs on two hosts that ssh reaches: ronde.run(hosts=...) and `ronde run -H`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clusters.ssh_cluster import SshCluster, why_not

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def cluster():
    if reason := why_not():
        pytest.skip(reason)
    with SshCluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def script(cluster, tmp_path):
    """Runs a Python script on the host that starts jobs; returns how it ended.

    Its path is in /tmp, which the other hosts do not share.
    """

    def run(body, **variables):
        path = tmp_path / "main.py"
        path.write_text("import os\nimport ronde\n" + textwrap.dedent(body))
        settings = [f"{name}={value}" for name, value in variables.items()]
        command = ["env", "-C", str(tmp_path), *settings, sys.executable, str(path)]
        return cluster.run(command, timeout=480)

    return run


def test_a_function_of_the_main_script_runs_on_two_hosts(script):
    done = script(
        """
        import numpy as np

        def total(base, more):
            ronde.init()
            summed = ronde.allreduce(np.full(3, base + more + ronde.rank()), op=ronde.Sum)[0]
            seen = os.path.exists("/tmp/here")
            return os.uname().nodename, ronde.local_rank(), float(summed), seen

        open("/tmp/here", "w").close()
        try:
            print(ronde.run(total, (1.0,), {"more": 2.0}, np=4, hosts="n1:2,n2:2"))
        finally:
            os.remove("/tmp/here")
        """
    )
    expected = [(host, local, 18.0, False) for host in ("n1", "n2") for local in (0, 1)]
    assert (done.returncode, done.stdout) == (0, f"{expected}\n"), done.stderr


def test_the_ranks_of_several_hosts_meet_by_a_tree(script):
    done = script(
        """
        def meet():
            ronde.init()
            return ronde.size()

        print(ronde.run(meet, np=4, hosts="n1:2,n2:2"))
        """,
        RONDE_LOG_LEVEL="debug",
    )
    assert (done.returncode, done.stdout) == (0, "[4, 4, 4, 4]\n"), done.stderr
    # Rank 0 hears of n2 from its leader, rank 2, alone.
    assert done.stderr.count("control channel: 4 ranks met in ") == 4, done.stderr


def test_a_leader_that_is_killed_while_the_ranks_meet_is_named(script):
    done = script(
        """
        import signal
        import threading
        import time

        def meet():
            if os.environ["RANK"] == "2":
                threading.Timer(1, os.kill, (os.getpid(), signal.SIGKILL)).start()
            if os.environ["RANK"] == "3":
                time.sleep(60)  # the others wait for it
            ronde.init()

        try:
            ronde.run(meet, np=4, hosts="n1:2,n2:2")
        except ronde.Error as error:
            print(error)
        """
    )
    assert "rank 2 (pid " in done.stdout, done.stdout + done.stderr
    assert "on n2) was killed by signal 9 (Killed)" in done.stdout


def test_large_arguments_and_results_come_whole(script):
    done = script(
        """
        def reverse(data):
            return data[::-1]

        data = os.urandom(5_000_001)
        found = ronde.run(reverse, (data,), np=2, hosts="n1:1,n2:1")
        print([one == data[::-1] for one in found])
        """
    )
    assert (done.returncode, done.stdout) == (0, "[True, True]\n"), done.stderr


def test_this_host_and_a_hostfile_are_hosts_too(script, tmp_path):
    (tmp_path / "hosts").write_text("login slots=1\nn2 slots=1\n")
    done = script(
        """
        def where():
            return os.uname().nodename, os.environ["RANK"]

        print(ronde.run(where, np=2, hostfile="hosts"))
        """
    )
    assert (done.returncode, done.stdout) == (0, "[('login', '0'), ('n2', '1')]\n"), done.stderr


def test_the_error_of_a_rank_names_its_host(script):
    done = script(
        """
        def fail():
            if os.environ["RANK"] == "2":
                raise KeyError("the cause")

        try:
            ronde.run(fail, np=4, hosts="n1:2,n2:2")
        except ronde.Error as error:
            print(error)
        """
    )
    assert done.stdout.startswith("rank 2 of 4 on n2 failed:\nTraceback "), done.stderr
    assert done.stdout.endswith("KeyError: 'the cause'\n\n")


def test_a_rank_that_is_killed_is_named_with_its_host(script):
    done = script(
        """
        import numpy as np
        import signal

        def vanish():
            ronde.init()
            if ronde.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            ronde.allreduce(np.ones(1), name="wait")

        try:
            ronde.run(vanish, np=2, hosts="n1:1,n2:1")
        except ronde.RankFailure as error:
            print(error.rank, error.host, error.pid > 0, error)
        """
    )
    assert done.stdout.startswith("1 n2 True the job of 2 ranks ended with exit status 137: rank 1")
    assert "on n2) was killed by signal 9 (Killed)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ('hosts="n1:1,far:1"', "UnavailableError", "far: ssh exited with status 255"),
        ('hosts="n1:1"', "InvalidArgumentError", "the hosts have 1 slots in all"),
        ('hosts="n1:1,n1:1"', "InvalidArgumentError", "n1"),
        ('hosts="n1:2", remote_ronde="/no/ronde"', "UnavailableError", "/no/ronde"),
        ('hosts="n1:2", executable="/no/python"', "UnavailableError", '"/no/python"'),
        ('hosts="n1:2", ssh_port=23', "UnavailableError", "n1: ssh exited with status 255"),
    ],
)
def test_hosts_that_cannot_be_used_are_named(script, arguments, error, text):
    done = script(
        f"""
        try:
            ronde.run(os.getpid, np=2, {arguments})
        except ronde.Error as error:
            print(type(error).__name__, error)
        """
    )
    assert done.stdout.startswith(error), done.stdout + done.stderr
    assert text in done.stdout


def test_a_module_that_a_host_lacks_is_named(script, tmp_path):
    (tmp_path / "mine.py").write_text("def double(x):\n    return 2 * x\n")
    done = script(
        """
        import cloudpickle
        import mine

        try:
            ronde.run(mine.double, (21,), np=1, hosts="n1:1")
        except ronde.Error as error:
            print("does not find module mine" in str(error), "on n1 failed" in str(error))
        cloudpickle.register_pickle_by_value(mine)
        print(ronde.run(mine.double, (21,), np=1, hosts="n1:1"))
        """
    )
    assert (done.returncode, done.stdout) == (0, "True True\n[42]\n"), done.stderr


def test_elastic_functions_run_on_other_hosts(script):
    done = script(
        """
        import ronde.elastic
        import numpy as np

        @ronde.elastic.run
        def train(state):
            total = ronde.allreduce(np.ones(1), op=ronde.Sum, name="ones")
            return os.uname().nodename, ronde.rank(), float(total[0])

        def job():
            ronde.init()
            return train(ronde.elastic.ObjectState(step=0))

        print(ronde.run(job, np=2, min_np=2, hosts="n1:1,n2:1"))
        """
    )
    expected = [("n1", 0, 2.0), ("n2", 1, 2.0)]
    assert (done.returncode, done.stdout) == (0, f"{expected}\n"), done.stderr


def test_the_error_of_an_elastic_worker_names_its_host(script):
    done = script(
        """
        import numpy as np

        def job():
            ronde.init()
            if ronde.rank() == 1:
                raise ValueError("bad batch")
            ronde.allreduce(np.ones(1), name="wait")

        try:
            ronde.run(job, np=2, min_np=2, reset_limit=0, hosts="n1:1,n2:1")
        except ronde.Error as error:
            print(error)
        """
    )
    assert done.stdout.startswith("a worker of the elastic job on n2 failed:\n"), done.stderr
    assert done.stdout.endswith("ValueError: bad batch\n\n")


def test_nothing_stays_on_the_hosts(cluster, script):
    ids = ["nsenter", "-t", str(cluster.login), "-p", "-m", "--"]
    listed = subprocess.run([*ids, "ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert [
        line for line in listed.splitlines() if "run-agent" in line or "_run_rank" in line
    ] == []


def test_the_commands_of_the_guide_run_on_two_hosts(cluster):
    ronde = [sys.executable, "-m", "ronde", "run", "-H", "n1:2,n2:2", "--"]
    done = cluster.run([*ronde, sys.executable, str(EXAMPLES / "slurm" / "sum.py")])
    lines = sorted(line.split("] ")[-1] for line in done.stdout.splitlines())
    expected = [f"rank {rank} of 4 ({rank % 2} on n{rank // 2 + 1}): 10" for rank in range(4)]
    assert (done.returncode, lines) == (0, expected), done.stderr
    script = [sys.executable, str(EXAMPLES / "ssh" / "function.py"), "n1:2,n2:2"]
    done = cluster.run(script)
    expected = [f"rank {rank} returned {rank % 2} on n{rank // 2 + 1}: 10" for rank in range(4)]
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr
