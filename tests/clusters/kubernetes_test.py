"""The manifests of examples/kubernetes, and jobs that start with their commands and variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with docs/requirements.txt")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
FOLDERS = ["indexed-job", "mpijob", "pytorchjob"]
SUM = """
import numpy as np
import ronde

ronde.init()
total = ronde.allreduce(np.full(3, ronde.rank() + 1.0), op=ronde.Sum)[0]
print(f"rank {ronde.rank()} of {ronde.size()}: {total}\\n", end="")
"""
ALIVE = ["ronde", "doctor", "--job", "--probe", "alive"]


def manifests(folder):
    """The documents of a folder's train.yaml by kind."""
    documents = yaml.safe_load_all((FOLDER / folder / "train.yaml").read_text())
    return {document["kind"]: document for document in documents}


def container(template):
    (only,) = template["spec"]["containers"]
    return only


def values(entries):
    """The variables with a literal value."""
    return {entry["name"]: entry["value"] for entry in entries if "value" in entry}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_names_each_file_that_it_needs(folder):
    text = (FOLDER / folder / "kustomization.yaml").read_text()
    kustomization = yaml.safe_load(text)
    assert kustomization["kind"] == "Kustomization"
    assert all((FOLDER / folder / name).exists() for name in kustomization["resources"])
    assert kustomization["images"][0]["name"] == "ronde-train"


def pods():
    job = manifests("pytorchjob")["PyTorchJob"]["spec"]["pytorchReplicaSpecs"]
    mpi = manifests("mpijob")["MPIJob"]["spec"]["mpiReplicaSpecs"]
    yield manifests("indexed-job")["Job"]["spec"]["template"]
    yield from (job[role]["template"] for role in ("Master", "Worker"))
    yield mpi["Worker"]["template"]


@pytest.mark.parametrize("pod", list(pods()))
def test_a_pod_of_ranks_has_time_to_end_and_is_watched(pod):
    assert pod["spec"]["terminationGracePeriodSeconds"] > 30
    assert container(pod)["livenessProbe"]["exec"]["command"] == ALIVE


@pytest.mark.parametrize("pod", list(pods())[:3])
def test_the_secret_is_mounted_closed_to_others(pod):
    (volume,) = pod["spec"]["volumes"]
    assert volume["secret"]["defaultMode"] == 0o400
    (mount,) = container(pod)["volumeMounts"]
    file = values(container(pod)["env"])["RONDE_SECRET_FILE"]
    assert Path(file) == Path(mount["mountPath"]) / "secret"


def test_an_indexed_job_agrees_with_its_service_and_size():
    documents = manifests("indexed-job")
    job, service = documents["Job"], documents["Service"]
    spec, pod = job["spec"], job["spec"]["template"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", spec["parallelism"])
    settings = values(container(pod)["env"])
    assert settings["RONDE_SIZE"] == str(spec["completions"])
    first = f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert settings["RONDE_RENDEZVOUS"].startswith(first + ":")
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["publishNotReadyAddresses"]


def test_an_mpijob_starts_ronde_run_with_the_operators_hosts():
    launcher = manifests("mpijob")["MPIJob"]["spec"]["mpiReplicaSpecs"]["Launcher"]
    command = container(launcher["template"])["command"]
    assert command[command.index("--hostfile") + 1] == "/etc/mpi/hostfile"
    words = [sys.executable, "-m", "ronde", *command[1 : command.index("--hostfile")], "--help"]
    told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    assert all(word in told for word in command if word.startswith("--") and word != "--")


def indexed_job(rank):
    """The container of a pod with this index, and the variables that the cluster sets."""
    only = container(manifests("indexed-job")["Job"]["spec"]["template"])
    fields = {
        "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(rank),
        "metadata.labels['batch.kubernetes.io/controller-uid']": "2b1c-77",
    }
    settings = {
        entry["name"]: fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in only["env"]
        if "valueFrom" in entry
    }
    return only, {"JOB_COMPLETION_INDEX": str(rank), **settings}


def pytorch_job(rank):
    """The same of a PyTorchJob, with the variables of its operator."""
    replicas = manifests("pytorchjob")["PyTorchJob"]["spec"]["pytorchReplicaSpecs"]
    names = {"MASTER_ADDR": "ronde-train-master-0", "MASTER_PORT": "23456"}
    place = {"WORLD_SIZE": "2", "RANK": str(rank)}
    pet = {f"PET_{name}": value for name, value in names.items()}
    pet |= {"PET_NNODES": "2", "PET_NODE_RANK": str(rank)}
    return container(replicas["Worker" if rank else "Master"]["template"]), names | place | pet


@pytest.mark.parametrize("job", [indexed_job, pytorch_job])
def test_two_pods_start_with_what_the_manifest_says(job, tmp_path):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("mount namespaces need root")
    hosts, secret, script = (tmp_path / name for name in ("hosts", "secret", "sum.py"))
    hosts.write_text("127.0.0.1 ronde-train-0.ronde-train ronde-train-master-0\n")
    secret.write_text("5a" * 32)
    secret.chmod(0o400)
    script.write_text(SUM)
    ranks = []
    for rank in range(2):
        only, settings = job(rank)
        own = {"RONDE_SECRET_FILE": str(secret), "RONDE_START_TIMEOUT_MS": "20000"}
        keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        mount = ["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts; exec "$@"', "sh"]
        ranks.append(
            subprocess.Popen(
                [*mount, *only["command"], sys.executable, str(script)],
                env=keep | values(only["env"]) | settings | own,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        said = [rank.communicate(timeout=60) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [out for out, _ in said] == [f"rank {rank} of 2: 3.0\n" for rank in range(2)], said


def test_the_core_schemas_accept_the_indexed_job():
    program = shutil.which("kubernetes-validate")
    if program is None:
        pytest.skip("kubernetes-validate is not installed")
    file = FOLDER / "indexed-job" / "train.yaml"
    subprocess.run([program, str(file)], check=True, timeout=60)
