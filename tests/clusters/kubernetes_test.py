"""The manifests of examples/kubernetes, and jobs that start with their commands and variables.

A pod is a mount namespace here, with the Secret volume that its manifest mounts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML comes with docs/requirements.txt")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
FOLDERS = ["elastic", "indexed-job", "mpijob", "pytorchjob", "trainjob"]
SUM = """
import numpy as np
import ronde

ronde.init()
total = ronde.allreduce(np.full(3, ronde.rank() + 1.0), op=ronde.Sum)[0]
print(f"rank {ronde.rank()} of {ronde.size()}: {total}\\n", end="")
"""
NAMES = ["ronde-train-0.ronde-train", "ronde-train-master-0", "ronde-train-node-0-0.ronde-train"]
ALIVE = ["ronde", "doctor", "--job", "--probe", "alive"]


def manifests(folder):
    """The documents of a folder's train.yaml by kind."""
    documents = yaml.safe_load_all((FOLDER / folder / "train.yaml").read_text())
    return {document["kind"]: document for document in documents}


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubectl_builds_a_folder_and_sets_its_image(folder, tmp_path):
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not installed")
    copy = tmp_path / "kubernetes"  # some folders name others
    shutil.copytree(FOLDER, copy)
    (copy / folder / "secret").write_text("5a" * 32)
    command = [program, "kustomize", str(copy / folder)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=480, check=True).stdout
    images = [line.split()[-1] for line in built.splitlines() if "image:" in line]
    assert set(images) == {"ronde-train:latest"}
    assert sum(one["kind"].endswith("Job") for one in yaml.safe_load_all(built)) == 1


def node_of_trainjob():
    """The pods' template in the TrainingRuntime."""
    (job,) = manifests("trainjob")["TrainingRuntime"]["spec"]["template"]["spec"]["replicatedJobs"]
    return job["template"]["spec"]["template"]


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
    yield node_of_trainjob()
    yield mpi["Worker"]["template"]


def test_a_trainjob_names_its_runtime_and_the_parts_that_trainer_looks_for():
    documents = manifests("trainjob")
    runtime, job = documents["TrainingRuntime"], documents["TrainJob"]["spec"]
    assert job["runtimeRef"]["kind"] == "TrainingRuntime"
    assert job["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert job["trainer"]["numNodes"] == runtime["spec"]["mlPolicy"]["numNodes"]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    labels = replicated["template"]["metadata"]["labels"]
    assert labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert replicated["name"] == container(node_of_trainjob())["name"] == "node"


@pytest.mark.parametrize("pod", list(pods()))
def test_a_pod_of_ranks_has_time_to_end_and_is_watched(pod):
    assert pod["spec"]["terminationGracePeriodSeconds"] > 30
    assert container(pod)["livenessProbe"]["exec"]["command"] == ALIVE


@pytest.mark.parametrize(
    ("pod", "watched"),
    # Ready ranks of MPIJobs and PyTorchJobs would have to be known by name before they are ready.
    list(zip(pods(), [True, False, True, True, False], strict=True)),
    ids=["indexed-job", "pytorchjob-master", "pytorchjob-worker", "trainjob", "mpijob-worker"],
)
def test_ranks_make_a_pod_ready_unless_its_name_is_needed_before(pod, watched):
    probe = container(pod).get("readinessProbe", {})
    ready = [*ALIVE[:-1], "ready"]
    assert (probe.get("exec", {}).get("command") == ready) == watched


@pytest.mark.parametrize("pod", list(pods()))
def test_a_pod_of_ranks_asks_for_what_it_needs(pod):
    resources = container(pod)["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert resources["limits"]["memory"] == resources["requests"]["memory"]


def test_a_job_survives_several_failures_of_which_each_restarts_every_pod():
    job = manifests("indexed-job")["Job"]["spec"]
    assert job["backoffLimit"] == 6 * job["completions"]
    torch = manifests("pytorchjob")["PyTorchJob"]["spec"]
    pods = sum(role["replicas"] for role in torch["pytorchReplicaSpecs"].values())
    assert torch["runPolicy"]["backoffLimit"] == 6 * pods


@pytest.mark.parametrize("folder", ["indexed-job", "pytorchjob", "trainjob"])
def test_git_ignores_the_secret_wherever_the_folder_is_copied(folder):
    assert (FOLDER / folder / ".gitignore").read_text() == "/secret\n"


@pytest.mark.parametrize("pod", list(pods())[:4])
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
    told = subprocess.run(words, capture_output=True, text=True, timeout=480, check=True).stdout
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


def train_job(rank):
    """The same of a TrainJob, with the variables that Trainer sets for torchrun."""
    job = manifests("trainjob")["TrainJob"]
    name, trainer = job["metadata"]["name"], job["spec"]["trainer"]
    pet = {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
        "PET_MASTER_PORT": "29500",
    }
    return container(node_of_trainjob()) | {"args": trainer["args"]}, pet


# A pod's files: its /etc/hosts, and the Secret volume as kubelet makes it with $3 as fsGroup.
POD = """
set -e
mount --bind "$1" /etc/hosts
mount -t tmpfs -o mode=755 pod /run
mkdir /run/ronde
mount -t tmpfs -o mode=755 secret /run/ronde
cd /run/ronde
mkdir ..2026
ln -s ..2026 ..data
ln -s ..data/secret secret
install -m "$2" /dev/null ..2026/secret
printf '5a%.0s' $(seq 32) > ..2026/secret
chgrp "$3" ..2026/secret
mount -o remount,bind,ro /run/ronde
cd /
shift 3
exec "$@"
"""
ROOT = ("0400", "0", [])
# The capability lets this user reach a Python below /root. What it may read of a Secret without
# one is in tests/backends/net/connection/secret_test.cc.
CAPABILITY = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
IDENTITY = ["--reuid=1000", "--regid=1000", "--groups=2000"]
USER = ("0440", "2000", ["setpriv", *IDENTITY, *CAPABILITY])


def in_pods(job, mode, group, user, folder):
    """Two pods of the job, which run SUM; what each printed and its errors."""
    ranks = []
    hosts, script = folder / "hosts", folder / "train.py"
    hosts.write_text(f"127.0.0.1 {' '.join(NAMES)}\n")
    script.write_text(SUM)
    for rank in range(2):
        only, settings = job(rank)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        space = ["unshare", "-m", "sh", "-c", POD, "sh", str(hosts), mode, group, *user]
        args = [str(script) if word == "train.py" else word for word in only["args"]]
        ranks.append(
            subprocess.Popen(
                [*space, *only["command"], *args],
                env={"PATH": path}
                | values(only["env"])
                | settings
                | {"RONDE_START_TIMEOUT_MS": "20000"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        return [rank.communicate(timeout=480) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


@pytest.fixture
def folder(tmp_path):
    """A folder for the pods' files; skips without mount namespaces."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("mount namespaces need root")
    return tmp_path


@pytest.mark.parametrize("pod", [ROOT, USER], ids=["root", "fsGroup"])
@pytest.mark.parametrize("job", [indexed_job, pytorch_job, train_job])
def test_two_pods_start_with_what_the_manifest_says(job, pod, folder):
    if job == train_job:
        pytest.importorskip("torch", reason="torchrun comes with it")
    said = in_pods(job, *pod, folder)
    assert [out for out, _ in said] == [f"rank {rank} of 2: 3.0\n" for rank in range(2)], said


def test_a_secret_that_all_may_read_is_refused_with_the_remedy(folder):
    for _, errors in in_pods(indexed_job, "0444", *USER[1:], folder):
        assert "RONDE_SECRET_FILE=/run/ronde/secret must belong to this user" in errors
        assert "defaultMode: 0400 of a Secret volume); its mode is 444 and its owner 0" in errors


def test_the_core_schemas_accept_the_indexed_job():
    program = shutil.which("kubernetes-validate")
    if program is None:
        pytest.skip("kubernetes-validate is not installed")
    file = FOLDER / "indexed-job" / "train.yaml"
    subprocess.run([program, str(file)], check=True, timeout=480)
