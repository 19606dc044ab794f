"""Runs the commands of an MPIJob's pods by mpi_pods.sh, with what the MPI operator gives them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_suffix(".sh")
SPACES = ["--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
TOOLS = ["unshare", "ip", "ssh", "ssh-keygen", "/usr/sbin/sshd"]
# The operator's variables of a launcher whose MPI is Open MPI.
VARIABLES = {
    "K_MPI_JOB_ROLE": "launcher",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}


def why_not() -> str:
    """Says why there can be no pods here; empty if there can be."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    overlay = ["mount", "-t", "overlay", "-o", "lowerdir=/etc:/mnt", "overlay", "/mnt"]
    done = subprocess.run(["unshare", *SPACES, *overlay], capture_output=True)
    return "" if done.returncode == 0 else "no overlays in namespaces here"


def run(worker: str, launcher: list[str], slots: int = 1) -> subprocess.CompletedProcess[str]:
    """The launcher's result, next to two workers that run a shell's words."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
    return subprocess.run(
        ["unshare", *SPACES, str(SCRIPT), str(slots), worker, "--", *launcher],
        env={"PATH": path} | VARIABLES,
        capture_output=True,
        text=True,
        timeout=480,
    )


def container(job: dict, role: str) -> dict:
    """The container of the job's Launcher or Worker."""
    (only,) = job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"]
    return only


def with_script(words: list[str], script: Path) -> list[str]:
    """The words with this script as train.py."""
    return [str(script) if word == "train.py" else word for word in words]
