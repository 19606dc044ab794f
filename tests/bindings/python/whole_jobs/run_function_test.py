"""ronde.run(): a function on several new ranks."""

import os
import shutil
import subprocess
import sys
import threading

import pytest
import ronde

LIMIT_S = 480


def total(base, more=0):
    """Defined in a module: this one."""
    import numpy as np

    ronde.init()
    result = ronde.allreduce(np.array([base + more + ronde.rank()]), op=ronde.Sum)
    ronde.shutdown()
    return ronde.__name__, int(result[0])


def test_results_come_in_order_of_rank():
    assert ronde.run(lambda: int(os.environ["RANK"]) * 10, np=3) == [0, 10, 20]


def test_functions_take_arguments_and_run_collectives():
    assert ronde.run(total, args=(5,), kwargs={"more": 1}, np=2) == [("ronde", 13)] * 2
    assert ronde.run(total, (5,), num_proc=1, hosts="localhost:1", use_gloo=True) == [("ronde", 5)]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
def test_a_rank_may_start_a_job_of_its_own_through_mpirun():
    def inner():
        ronde.init()
        return ronde.rank(), ronde.size(), os.environ["GIVEN"]

    def outer():
        return ronde.run(inner, np=2, use_mpi=True, mpi_args="-x GIVEN=yes")

    assert ronde.run(outer, np=1) == [[(0, 2, "yes"), (1, 2, "yes")]]


def test_the_error_of_a_rank_is_raised_with_its_traceback():
    def fail():
        if os.environ["RANK"] == "1":
            raise KeyError("the cause")

    with pytest.raises(ronde.Error, match=r"rank 1 of 2 failed:(.|\n)*KeyError: 'the cause'"):
        ronde.run(fail, np=2)


def test_a_rank_that_vanishes_is_an_error():
    with pytest.raises(
        ronde.RankFailure, match=r"exit status 3: rank \d \(pid \d+\) exited"
    ) as caught:
        ronde.run(os._exit, args=(3,), np=2)
    assert caught.value.rank in (0, 1)
    assert caught.value.pid > 0


def test_a_rank_that_ends_inside_the_function_is_named():
    def leave():
        if os.environ["RANK"] == "1":
            os._exit(0)

    with pytest.raises(ronde.Error, match="rank 1 of 2 ended with status 0 inside the function"):
        ronde.run(leave, np=2)


def test_programs_that_the_function_starts_get_neither_call_nor_answer():
    def descriptors():
        command = ["ls", "-l", "/proc/self/fd"]
        return subprocess.run(command, close_fds=False, capture_output=True, text=True).stdout

    (listed,) = ronde.run(descriptors, np=1)
    assert "/proc/" in listed
    assert "ronde-call" not in listed
    assert "ronde-answer" not in listed


def test_a_result_that_the_caller_cannot_unpickle_names_its_rank():
    class Odd:
        def __reduce__(self):
            return int, ("odd",)

    with pytest.raises(ronde.Error, match="cannot unpickle what rank 0 has returned: ValueError"):
        ronde.run(Odd, np=1)


def test_what_cannot_be_run_is_a_value_error():
    with pytest.raises(ValueError, match="on this host only, not on far:2"):
        ronde.run(total, np=2, hosts="far:2", use_mpi=True)
    with pytest.raises(ValueError, match="2 ranks asked for, but the hosts have 1 slots"):
        ronde.run(total, np=2, hosts="localhost:1")
    with pytest.raises(ValueError, match="cannot pickle"):
        ronde.run(total, args=(threading.Lock(),), np=1)
    for ranks in (0, -1, "two"):
        with pytest.raises(ValueError, match=f"np={ranks!r}; allowed: whole numbers from 1"):
            ronde.run(total, np=ranks)
    for name, (value, sentence) in {
        "hosts": (["a", "b"], 'hosts must be a str such as "a:2,b:2", not'),
        "env": (["A=1"], "env must be a dict, not"),
        "args": (3, "args must be a list, not 3"),
        "ssh_port": ("22", "ssh_port must be an int, not '22'"),
        "ssh_options": ("A=1", "ssh_options must be a list, not 'A=1'"),
    }.items():
        with pytest.raises(ronde.ArgumentTypeError, match=sentence):
            ronde.run(total, np=1, **{name: value})
    with pytest.raises(ronde.ArgumentTypeError, match="func must be a function, not None"):
        ronde.run(None, np=1)


def test_a_folder_that_is_gone_is_an_error_in_words(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ronde.InvalidArgumentError, match="the current folder cannot be used"):
        ronde.run(print, np=1)


def test_every_name_of_horovods_run_is_known(tmp_path):
    hostfile, identity = tmp_path / "hosts", tmp_path / "key"
    identity.touch()
    hostfile.write_text("# this host\nlocalhost slots=2\n")
    environment = {**os.environ, "MINE": "given"}
    assert (
        ronde.run(
            os.getenv,
            ("MINE",),
            None,
            2,
            hostfile=str(hostfile),
            env=environment,
            ssh_port=22,
            ssh_identity_file=str(identity),
            use_gloo=True,
            disable_cache=True,
            network_interfaces=["lo"],
            verbose=0,
            start_timeout=60,
            output_filename=str(tmp_path / "output"),
            min_np=None,
        )
        == ["given"] * 2
    )
    hostfile.write_text("localhost slots=2\nfar slots=2\n")
    with pytest.raises(ValueError, match="on this host only, not on far"):
        ronde.run(os.getpid, np=2, hostfile=str(hostfile), use_mpi=True)
    with pytest.raises(ValueError, match=r"hosts='localhost' and hostfile=.*: give one"):
        ronde.run(os.getpid, np=2, hosts="localhost", hostfile=str(hostfile))
    with pytest.raises(ValueError, match="ssh_port=0; allowed: 1 to 65535"):
        ronde.run(os.getpid, np=2, ssh_port=0)
    with pytest.raises(ValueError, match="ssh_identity_file='none': there is no such file"):
        ronde.run(os.getpid, np=2, ssh_identity_file="none")
    with pytest.raises(ValueError, match="cannot read the hostfile"):
        ronde.run(os.getpid, np=2, hostfile=str(tmp_path / "none"))
    with pytest.raises(ronde.Error):
        ronde.run(os.getpid, np=2, network_interfaces="lo,eth7")
    with pytest.raises(ValueError, match="is for mpirun: give use_mpi=True"):
        ronde.run(os.getpid, np=2, mpi_args="--oversubscribe")
    for name in ("slots", "reset_limit", "elastic_timeout", "cooldown_range"):
        with pytest.raises(ValueError, match="=3 is for elastic jobs: give min_np"):
            ronde.run(os.getpid, np=2, **{name: 3})
    with pytest.raises(ValueError, match="min_np=2 and min_num_proc=3 mean the same"):
        ronde.run(os.getpid, np=2, min_np=2, min_num_proc=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nodes'"):
        ronde.run(os.getpid, np=2, nodes=2)


def test_a_main_script_can_run_its_own_functions(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import ronde\n"
        "def double(x):\n"
        "    return 2 * x\n"
        "if __name__ == '__main__':\n"
        "    print('got', ronde.run(double, (21,), np=2))\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert "got [42, 42]" in done.stdout, done.stdout + done.stderr
