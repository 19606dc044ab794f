"""Jobs that other launchers start: the ranks find each other without ``ronde run``."""

import os
import shutil
import subprocess
import sys

import pytest

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
        timeout=120,
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


def test_torchrun(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    run([*torchrun, "--master-port", "0"], tmp_path)


def test_no_launcher_is_a_job_of_one(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "rank 0 of 1: [1.0, 1.0, 1.0]" in done.stdout, done.stdout + done.stderr
