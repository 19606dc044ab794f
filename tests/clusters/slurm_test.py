"""Jobs that a real Slurm starts on two nodes. The first case runs always, the rest by --all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.volume import ALL, IS_ALL

from clusters import ddp
from clusters.slurm_cluster import SlurmCluster, why_not

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "slurm"
SUM = """
import os
import numpy as np
import ronde

ronde.init()
total = ronde.allreduce(np.full(3, ronde.rank() + 1.0), op=ronde.Sum)[0]
host = os.uname().nodename
print(f"rank {ronde.rank()} of {ronde.size()}, {ronde.local_rank()} on {host}: {total}\\n", end="")
"""
FOUR = [f"rank {rank} of 4, {rank % 2} on n{rank // 2 + 1}: 10.0" for rank in range(4)]
TASKS = ["srun", "-N2", "--ntasks-per-node=2"]


@pytest.fixture(scope="module", params=["munge", "none"])
def cluster(request):
    """Two nodes, with munge and without."""
    if reason := why_not():
        pytest.skip(reason)
    if request.param == "none" and not IS_ALL:
        pytest.skip("tests/run.sh --all")
    with SlurmCluster(auth=request.param) as cluster:
        yield cluster


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "sum.py"
    path.write_text(SUM)
    return [sys.executable, str(path)]


def run(cluster, command, tmp_path, **environment):
    """Runs `command` with its own home; (status, sorted lines, errors)."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    environment.setdefault("RONDE_START_TIMEOUT_MS", "20000")
    settings = [f"{name}={value}" for name, value in environment.items()]
    done = cluster.run(["env", "-C", str(tmp_path), f"HOME={home}", *settings, *command])
    return done.returncode, sorted(done.stdout.splitlines()), done.stderr


def secrets(tmp_path: Path) -> list[Path]:
    return list(tmp_path.rglob(".ronde*"))


def test_srun_alone_starts_a_job_over_two_nodes(cluster, script, tmp_path):
    status, lines, errors = run(cluster, [*TASKS, *script], tmp_path, RONDE_LOG_LEVEL="debug")
    assert (status, lines) == (0, FOUR), errors
    assert "control channel: the other ranks came over 2 connections" in errors, errors
    assert secrets(tmp_path) == []


@ALL
def test_ddp_finds_the_job_without_variables_by_hand(cluster, tmp_path):
    script = tmp_path / "ddp.py"
    script.write_text(ddp.SCRIPT)
    status, lines, errors = run(cluster, [*TASKS, sys.executable, str(script)], tmp_path)
    assert (status, lines) == (0, ddp.lines(4)), errors
    assert secrets(tmp_path) == []


@ALL
@pytest.mark.parametrize("distribution", ["block", "cyclic"])
def test_ranks_may_lie_in_any_order(cluster, script, tmp_path, distribution):
    command = [*TASKS, "-m", distribution, *script]
    status, lines, errors = run(cluster, command, tmp_path)
    assert (status, len(lines)) == (0, 4), errors
    assert all(line.endswith(": 10.0") for line in lines)


@ALL
def test_two_steps_with_the_same_ports_both_run(cluster, script, tmp_path):
    one = " ".join([*TASKS, "--overlap", *script])
    command = ["salloc", "-N2", "--ntasks-per-node=2", "bash", "-c", f"{one} & {one} & wait"]
    ports = {"SLURM_STEP_RESV_PORTS": "13000-13001"}
    status, lines, errors = run(cluster, command, tmp_path, **ports)
    assert (status, lines) == (0, sorted(FOUR * 2)), errors


@ALL
def test_the_ranks_of_pmi2_are_slurms(cluster, script, tmp_path):
    status, lines, errors = run(cluster, [*TASKS, "--mpi=pmi2", *script], tmp_path)
    assert (status, lines) == (0, FOUR), errors


@ALL
def test_a_batch_script_without_srun_is_told(cluster, script, tmp_path):
    batch = tmp_path / "batch.sh"
    batch.write_text("#!/bin/bash\n" + " ".join(script) + "\n")
    command = ["sbatch", "-W", "-N2", "--ntasks-per-node=2", "-o", "out", str(batch)]
    status, _, errors = run(cluster, command, tmp_path)
    said = (tmp_path / "out").read_text()
    assert status == 0, errors
    assert "rank 0 of 1, 0 on n1: 1.0" in said
    assert 'write "srun" before the command' in said


@ALL
@pytest.mark.parametrize("launcher", ["torchrun", "ronde", "mpirun"])
def test_the_inner_launcher_counts(cluster, script, tmp_path, launcher):
    inner = {
        "torchrun": [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"],
        "ronde": [sys.executable, "-m", "ronde", "run", "-np", "2", "--"],
        "mpirun": [
            "mpirun",
            "--allow-run-as-root",
            "--oversubscribe",
            "--host",
            "n1:2",
            "-np",
            "2",
        ],
    }[launcher]
    command = script[1:] if launcher == "torchrun" else script
    status, lines, errors = run(
        cluster, ["srun", "-N1", "-n1", "-w", "n1", *inner, *command], tmp_path
    )
    assert status == 0, errors
    for rank in range(2):
        expected = f"rank {rank} of 2, {rank} on n1: 3.0"
        assert any(line.endswith(expected) for line in lines), (lines, errors)


@ALL
def test_a_missing_interface_is_named(cluster, script, tmp_path):
    settings = {"RONDE_NETWORK_INTERFACE": "ib7", "RONDE_START_TIMEOUT_MS": "3000"}
    status, _, errors = run(cluster, [*TASKS, *script], tmp_path, **settings)
    assert status != 0
    assert 'RONDE_NETWORK_INTERFACE="ib7"' in errors
    assert "eth0" in errors


@ALL
def test_a_secret_that_others_can_read_is_refused(cluster, script, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("0" * 64)
    secret.chmod(0o644)
    settings = {"RONDE_SECRET_FILE": str(secret)}
    status, _, errors = run(cluster, [*TASKS, *script], tmp_path, **settings)
    assert status != 0
    assert "chmod 600" in errors
    assert "its mode is 644" in errors


@ALL
def test_a_name_that_does_not_resolve_is_named_with_the_remedy(cluster, script, tmp_path):
    shell = 'SLURM_STEP_NODELIST="no-such-[1-2]" "$@"'
    command = [*TASKS, "bash", "-c", shell, "bash", *script]
    status, _, errors = run(cluster, command, tmp_path)
    assert status != 0
    assert 'cannot resolve "no-such-1"' in errors
    assert "RONDE_RENDEZVOUS=ADDRESS:PORT" in errors


@ALL
def test_a_node_that_calls_itself_127_0_1_1_is_reached(cluster, script, tmp_path):
    hosts = tmp_path / "hosts"
    own = (cluster.folder / "hosts").read_text().replace("10.79.0.1 n1", "127.0.1.1 n1")
    hosts.write_text(own)
    shell = f'[ $SLURM_NODEID = 1 ] || mount --bind {hosts} /etc/hosts; "$@"'
    command = [*TASKS, "unshare", "-m", "bash", "-c", shell, "bash", *script]
    status, lines, errors = run(cluster, command, tmp_path)
    assert (status, lines) == (0, FOUR), errors


@ALL
def test_nodes_without_a_way_between_them_are_named(cluster, script, tmp_path):
    rules = "add table inet t; add chain inet t c { type filter hook output priority 0; };"
    rules += " add rule inet t c ip daddr 10.79.0.1 tcp dport 12000-28000 drop"
    block = ["srun", "-N1", "-n1", "-w", "n2", "nft", rules]
    assert run(cluster, block, tmp_path)[0] == 0
    try:
        settings = {"RONDE_START_TIMEOUT_MS": "3000"}
        status, _, errors = run(cluster, [*TASKS, *script], tmp_path, **settings)
    finally:
        clear = ["srun", "-N1", "-n1", "-w", "n2", "nft", "delete table inet t"]
        assert run(cluster, clear, tmp_path)[0] == 0
    assert status != 0
    assert "could not reach rank 0 at 10.79.0.1:" in errors
    assert "on n2 the rendezvous" in errors
    assert secrets(tmp_path) == []


@ALL
def test_the_plain_batch_example_runs(cluster, tmp_path):
    command = [sys.executable, str(EXAMPLES / "sum.py")]
    batch = ["sbatch", "-W", "-o", "out", str(EXAMPLES / "plain.sh"), *command]
    status, _, errors = run(cluster, batch, tmp_path)
    said = (tmp_path / "out").read_text()
    assert status == 0, errors + said
    assert [said.count(f"rank {rank} of 4 ") for rank in range(4)] == [1] * 4
    assert said.count(": 10\n") == 4


def wait_for(condition, what, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@ALL
def test_a_preempted_job_leaves_and_goes_on_from_its_checkpoint(cluster, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, str(EXAMPLES / "elastic.py"), str(tmp_path / "checkpoint")]
    batch = ["sbatch", "--parsable", "-N1", "-o", "out", str(EXAMPLES / "elastic.sh"), *command]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    status, lines, errors = run(cluster, batch, tmp_path, PATH=path)
    assert status == 0, errors
    job = lines[0]
    wait_for(lambda: list(tmp_path.glob("checkpoint.*")), "a checkpoint")
    urgent = ["srun", "-p", "urgent", "-N2", "--exclusive", "true"]
    assert run(cluster, urgent, tmp_path)[0] == 0
    assert "leaves: SIGTERM" in out.read_text()
    # Slurm lets a requeued job wait for two minutes.
    again = ["scontrol", "update", f"JobId={job}", "StartTime=now"]
    wait_for(lambda: run(cluster, again, tmp_path)[0] == 0, "the job waits again")
    wait_for(lambda: "steps done" in out.read_text(), out.read_text())
    starts = re.findall(r"from step (\d+) on", out.read_text())
    assert starts[0] == "0"
    assert int(starts[1]) > 0
    assert "300 steps done" in out.read_text()


@ALL
def test_ronde_run_takes_its_hosts_from_the_allocation(cluster, script, tmp_path):
    for name in ("host_key", "user_key"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(key, check=True)
    lines = [f"HostKey {tmp_path}/host_key", f"AuthorizedKeysFile {tmp_path}/user_key.pub"]
    lines += ["Port 2222", "StrictModes no", "UsePAM no", "PidFile none", ""]
    (tmp_path / "sshd_config").write_text("\n".join(lines))
    ronde = [sys.executable, "-m", "ronde", "run", "--ssh-port", "2222"]
    ronde += ["--ssh-identity-file", f"{tmp_path}/user_key"]
    for option in ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"):
        ronde += ["--ssh-option", option]
    os.makedirs("/run/sshd", exist_ok=True)
    shell = f"""srun --overlap --ntasks-per-node=1 /usr/sbin/sshd -D -f {tmp_path}/sshd_config &
      for host in n1 n2; do until (: > /dev/tcp/$host/2222) 2> /dev/null; do sleep 0.1; done; done
      {" ".join([*ronde, "--", *script])}
      status=$?; kill $!; exit $status"""
    command = ["salloc", "-N2", "--ntasks-per-node=2", "bash", "-c", shell]
    status, lines, errors = run(cluster, command, tmp_path)
    assert status == 0, errors
    assert [line.split(" ", 1)[1] for line in lines if line.startswith("[")] == FOUR
