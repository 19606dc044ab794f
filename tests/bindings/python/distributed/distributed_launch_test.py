"""torch.distributed over `ronde` under each launcher, and when a rank dies inside DDP."""

import os
import shutil
import subprocess
import sys

import pytest
from jobs import free_ports

STEP = """
import os, signal, sys
import torch
import torch.distributed as dist
import ronde
import ronde.torch.distributed


def work(rank=None, size=None, address=None):
    if rank is None:
        dist.init_process_group("ronde")
    else:
        dist.init_process_group("ronde", init_method=address, rank=rank, world_size=size)
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(2):  # and once more in the same processes
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
        model(torch.full((1, 2), float(rank))).sum().backward()
        assert model.module.weight.grad.tolist() == [[(size - 1) / 2] * 2]
    dist.destroy_process_group()
    assert not ronde.is_initialized()
    print(f"rank {rank} of {size} done", flush=True)
"""

ENV = STEP + "\nwork()\n"
SPAWN = (
    STEP
    + """
if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (2, sys.argv[1]), nprocs=2)
"""
)
KILLED = """
import os, signal
import torch
import torch.distributed as dist
import ronde
import ronde.torch.distributed

dist.init_process_group("ronde")
layers = [torch.nn.Linear(8, 8) for _ in range(3)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=1e-4)


def die(*_):
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


model(torch.ones(1, 8)).sum().backward()
try:
    output = model(torch.ones(1, 8))  # here already where rank 1 is far ahead
    layers[0].weight.register_hook(die)  # the last gradient of this backward
    output.sum().backward()
    dist.barrier()
    print("nothing was raised", flush=True)
except ronde.RankFailure as failure:
    print(f"rank {dist.get_rank()} learnt that rank {failure.rank} died", flush=True)
try:
    dist.all_reduce(torch.ones(1))
except ronde.RankFailure as failure:
    print(f"rank {dist.get_rank()} still knows of rank {failure.rank}", flush=True)
os._exit(0)
"""


def run(command, limit_s=480, **more):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
    )
    return done.returncode, done.stdout + done.stderr


def check_done(status, output):
    assert status == 0, output
    for rank in range(2):
        assert f"rank {rank} of 2 done" in output, output


def test_torchrun(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(ENV)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    check_done(*run([*torchrun, "--nproc-per-node", "2", str(script)]))


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed")
@pytest.mark.parametrize("store_is_set", [False, True])
def test_mpirun_without_variables_by_hand(tmp_path, store_is_set):
    script = tmp_path / "job.py"
    script.write_text(ENV.replace("import ronde.torch.distributed\n", ""))
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1))}
    more = place if store_is_set else {}
    check_done(*run([*MPIRUN, sys.executable, str(script)], **more))


def test_srun_without_variables_by_hand(tmp_path):
    """Two processes with the variables of srun stand for its tasks on one node."""
    script = tmp_path / "job.py"
    script.write_text(ENV)
    step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_CLUSTER_NAME": "test"}
    step.update(SLURM_STEP_NUM_TASKS="2", SLURM_NTASKS="2", SLURM_STEP_NODELIST="n1")
    starter = """
import os, subprocess, sys
environments = [{**os.environ, "SLURM_PROCID": str(rank)} for rank in range(2)]
ranks = [subprocess.Popen([sys.executable, sys.argv[1]], env=env) for env in environments]
sys.exit(max(rank.wait(60) for rank in ranks))
"""
    check_done(*run([sys.executable, "-c", starter, str(script)], **step))


def test_without_a_launcher_torchs_own_error_stays(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(ENV)
    status, output = run([sys.executable, str(script)])
    assert status == 1
    assert "environment variable RANK expected, but not set" in output


def test_spawn(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(SPAWN)
    check_done(*run([sys.executable, str(script), f"tcp://127.0.0.1:{free_ports(1)}"]))


def test_a_rank_killed_inside_ddp_is_named_on_the_others(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(KILLED)
    # torchrun and `ronde run` end the others at once; here they may tell what they saw.
    starter = """
import os, subprocess, sys
os.environ.update(WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
environments = [{**os.environ, "RANK": str(rank)} for rank in range(3)]
ranks = [subprocess.Popen([sys.executable, sys.argv[1]], env=env) for env in environments]
print([rank.wait(60) for rank in ranks])
"""
    status, output = run([sys.executable, "-c", starter, str(script), str(free_ports(1))])
    assert status == 0, output
    assert "[0, -9, 0]" in output, output
    for rank in (0, 2):
        assert f"rank {rank} learnt that rank 1 died" in output, output
        assert f"rank {rank} still knows of rank 1" in output, output
