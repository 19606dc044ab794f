"""Jobs that other launchers start: the ranks find each other without ``ronde run``."""

import os
import shutil
import subprocess
import sys

import pytest
import ronde
from ronde._rendezvous import torchrun as agents

SCRIPT = """
import torch
import ronde.torch as hvd

hvd.init()
total = hvd.allreduce(torch.full((3,), float(hvd.rank() + 1)), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()}: {total.tolist()}", flush=True)
hvd.shutdown()
"""
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]


def run(command, tmp_path, **environment):
    """Runs the script under a launcher and checks what both ranks print."""
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [*command, str(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    for rank in range(2):
        assert f"rank {rank} of 2: [3.0, 3.0, 3.0]" in output, output


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
@pytest.mark.parametrize("backend", ["auto", "mpi", "gloo", "tcp"])
def test_mpirun(backend, tmp_path):
    run([*MPIRUN, sys.executable], tmp_path, RONDE_BACKEND=backend)


RONDE_RUN_MPI = [sys.executable, "-m", "ronde", "run", "--backend", "mpi", "-np", "2", "--"]


def run_by_mpirun(script):
    return subprocess.run(
        [*RONDE_RUN_MPI, "sh", "-c", script],
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
def test_ronde_run_backend_mpi_starts_the_ranks_through_mpirun(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    code = "echo omp=$OMP_NUM_THREADS $RANK/$WORLD_SIZE $LOCAL_RANK $OMPI_COMM_WORLD_RANK;"
    done = run_by_mpirun(f"{code} {sys.executable} {script}")
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(2):
        assert f"[{rank}] rank {rank} of 2: [3.0, 3.0, 3.0]" in done.stdout, done.stdout
        assert f"[{rank}] omp={max(1, len(os.sched_getaffinity(0)) // 2)} " in done.stdout
        assert f" {rank}/2 {rank} {rank}\n" in done.stdout


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
def test_under_mpirun_the_failing_ranks_status_is_the_jobs():
    done = run_by_mpirun("[ $RANK = 1 ] && exit 7; sleep 1000")
    assert done.returncode == 7, done.stdout + done.stderr
    assert "mpirun" in done.stderr


def test_torchrun(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    run([*torchrun, "--master-port", "0"], tmp_path)


def test_torchrun_on_several_hosts_says_what_an_older_torch_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "ronde._rendezvous.settings", None)
    for name in [name for name in os.environ if name.startswith("RONDE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "n1")
    why = r"2 agents.*PyTorch 2.11.*RONDE_RENDEZVOUS=ADDRESS:PORT.*RONDE_SECRET_FILE=PATH"
    with pytest.raises(ronde.UnavailableError, match=why):
        agents.agreed_settings({}, {})
    by_hand = {"RONDE_RENDEZVOUS": "n1:4000", "RONDE_SECRET_FILE": "/secret"}
    assert agents.agreed_settings({}, by_hand) == {}
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert agents.agreed_settings({}, {}) == {}


def test_no_launcher_is_a_job_of_one(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=480, check=False
    )
    assert "rank 0 of 1: [1.0, 1.0, 1.0]" in done.stdout, done.stdout + done.stderr
