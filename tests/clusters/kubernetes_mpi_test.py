"""The MPIJob of examples/kubernetes/mpijob, in namespaces with the operator's names and files."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with docs/requirements.txt")

PODS = Path(__file__).with_name("mpi_pods.sh")
MANIFEST = Path(__file__).resolve().parents[2] / "examples/kubernetes/mpijob/train.yaml"
SPACES = ["--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
TOOLS = ["unshare", "ip", "ssh", "ssh-keygen", "/usr/sbin/sshd"]
# The operator's variables of a launcher whose MPI is Open MPI.
VARIABLES = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}
TRAIN = """
import socket
import numpy as np
import ronde

ronde.init()
total = ronde.allreduce(np.full(3, ronde.rank() + 1.0), op=ronde.Sum)[0]
print(f"rank {ronde.rank()} of {ronde.size()} on {socket.gethostname()}: {total}\\n", end="")
"""


def replica(role):
    spec = yaml.safe_load(MANIFEST.read_text())["spec"]
    (only,) = spec["mpiReplicaSpecs"][role]["template"]["spec"]["containers"]
    return spec, only


def why_not():
    """Says why there can be no pods here; empty if there can be."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    overlay = ["mount", "-t", "overlay", "-o", "lowerdir=/etc:/mnt", "overlay", "/mnt"]
    done = subprocess.run(["unshare", *SPACES, *overlay], capture_output=True)
    return "" if done.returncode == 0 else "no overlays in namespaces here"


def play(tmp_path, change=lambda words: words, starter=None):
    """Starts the manifest's commands in pods; the launcher's result.

    `change` changes the workers' words; `starter` replaces the launcher's command.
    """
    if reason := why_not():
        pytest.skip(reason)
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    spec, worker = replica("Worker")
    _, launcher = replica("Launcher")
    args = [str(script) if word == "train.py" else word for word in launcher["args"]]
    words = [str(PODS), str(spec["slotsPerWorker"]), change(shlex.join(worker["command"]))]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
    return subprocess.run(
        ["unshare", *SPACES, *words, "--", *(starter or launcher["command"]), *args],
        env={"PATH": path} | VARIABLES,
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_the_operator_waits_for_sshd_before_it_starts_the_launcher():
    spec, worker = replica("Worker")
    assert spec["launcherCreationPolicy"] == "WaitForWorkersReady"
    # A probe of ranks would never succeed: ssh cannot resolve names of pods that are not ready.
    assert worker["readinessProbe"]["tcpSocket"] == {"port": 22}


def test_ronde_run_starts_ranks_in_the_workers_of_the_hostfile(tmp_path):
    done = play(tmp_path)
    lines = [f"[{n}] rank {n} of 2 on ronde-train-worker-{n}: 3.0" for n in range(2)]
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, lines), done.stderr


def test_a_host_with_another_key_than_the_jobs_is_refused(tmp_path):
    key = "ssh-keygen -q -t ed25519 -N '' -f /run/key"
    done = play(
        tmp_path,
        lambda words: f"{key}; {words.replace('HostKey=/root/.ssh/id_rsa', 'HostKey=/run/key')}",
    )
    assert done.returncode != 0
    assert "Host key verification failed" in done.stderr
    assert done.stdout == ""


def test_sshd_refuses_a_secrets_folder_unless_strict_modes_are_off(tmp_path):
    done = play(tmp_path, lambda words: words.replace("StrictModes=no", "StrictModes=yes"))
    assert done.returncode != 0
    assert "bad ownership or modes for directory /root/.ssh" in done.stderr


def test_mpirun_starts_ranks_with_rank_0s_address_and_a_secret(tmp_path):
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    secret = f"mkdir /run/ronde; (umask 077; echo {'5a' * 32} > /run/ronde/secret)"
    settings = ["RONDE_RENDEZVOUS=ronde-train-worker-0.ronde-train.default.svc:29400"]
    settings += ["RONDE_SECRET_FILE=/run/ronde/secret", "PATH"]
    known = 'KnownHostsCommand /usr/bin/sed "s/^/* /" /root/.ssh/id_rsa.pub'
    image = f"echo {shlex.quote(known)} > /etc/ssh/ssh_config.d/ronde.conf"
    mpirun = ["mpirun", "--allow-run-as-root", "-np", "2"]
    for setting in settings:
        mpirun += ["-x", setting]
    starter = ["sh", "-c", f'{image}; exec "$@"', "sh", *mpirun]
    done = play(tmp_path, lambda words: f"{secret}; {words}", starter)
    lines = [f"rank {n} of 2 on ronde-train-worker-{n}: 3.0" for n in range(2)]
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, lines), done.stderr
