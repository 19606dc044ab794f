"""The MPIJob of examples/kubernetes/mpijob, in namespaces with the operator's names and files."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from clusters.mpi_pods import container, run, why_not, with_script

yaml = pytest.importorskip("yaml", reason="PyYAML comes with docs/requirements.txt")

MANIFEST = Path(__file__).resolve().parents[2] / "examples/kubernetes/mpijob/train.yaml"
TRAIN = """
import socket
import numpy as np
import ronde

ronde.init()
total = ronde.allreduce(np.full(3, ronde.rank() + 1.0), op=ronde.Sum)[0]
print(f"rank {ronde.rank()} of {ronde.size()} on {socket.gethostname()}: {total}\\n", end="")
"""


def play(tmp_path, change=lambda words: words, starter=None):
    """Starts the manifest's commands in pods; the launcher's result.

    `change` changes the workers' words; `starter` replaces the launcher's command.
    """
    if reason := why_not():
        pytest.skip(reason)
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    job = yaml.safe_load(MANIFEST.read_text())
    launcher = container(job, "Launcher")
    return run(
        change(shlex.join(container(job, "Worker")["command"])),
        [*(starter or launcher["command"]), *with_script(launcher["args"], script)],
        job["spec"]["slotsPerWorker"],
    )


def test_the_operator_waits_for_sshd_before_it_starts_the_launcher():
    job = yaml.safe_load(MANIFEST.read_text())
    assert job["spec"]["launcherCreationPolicy"] == "WaitForWorkersReady"
    # A probe of ranks would never succeed: ssh cannot resolve names of pods that are not ready.
    assert container(job, "Worker")["readinessProbe"]["tcpSocket"] == {"port": 22}


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
    settings = ["RONDE_RENDEZVOUS=ronde-train-worker-0.ronde-train.team.svc:29400"]
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
