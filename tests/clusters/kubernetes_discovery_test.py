"""Hosts of an elastic job from the Kubernetes API: examples/kubernetes/elastic."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.kubernetes_api import Api, follow, make_certificate, pod
from clusters.mpi_pods import container, run, why_not, with_script

yaml = pytest.importorskip("yaml", reason="PyYAML comes with docs/requirements.txt")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kubernetes" / "elastic"
SCRIPT = FOLDER / "discover_pods.py"
# Ends when the job had two ranks, and has one again.
TRAIN = """
import numpy as np
import ronde
import ronde.elastic

ronde.init()
state = ronde.elastic.ArrayState(grown=0)


@ronde.elastic.run
def train(state):
    while not (state.grown and ronde.size() == 1):
        ronde.allreduce(np.ones(4), name="gradient")
        state.grown = max(state.grown, int(ronde.size() == 2))
        state.commit()


train(state)
print(f"trained on {ronde.size()}")
"""


@pytest.fixture
def api(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    with Api(tmp_path / "account") as api:
        yield api


def discover(api, **changes):
    """Runs the script with the variables of a pod; None in `changes` takes one away."""
    settings = os.environ | api.environment() | changes
    return subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={name: value for name, value in settings.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=480,
    )


def refused(done):
    """The line of a run that failed."""
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    return line.removeprefix("discover_pods.py: ")


def test_ready_pods_are_hosts_and_others_are_not(api):
    api.list(
        pod("train-worker-1"),
        pod("train-worker-0"),
        pod("starting", ready="False"),
        pod("ending", deletionTimestamp="2026-11-25T16:00:00Z"),
        pod("plain", address="10.0.0.7"),
        pod("six", address="fd00::7"),
        {"metadata": {"name": "pending"}, "spec": {}, "status": {}},
    )
    done = discover(api)
    names = [f"train-worker-{n}.train.team.svc" for n in range(2)]
    assert done.stdout.splitlines() == ["10.0.0.7", "[fd00::7]", *names], done.stderr
    assert (done.returncode, api.queries) == (0, ["app=train,role=worker"])


def test_no_ready_pod_is_an_answer(api):
    done = discover(api)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_refusal_names_the_rule_that_the_role_has(api):
    api.answer = (403, {"kind": "Status", "reason": "Forbidden"})
    rule = '{apiGroups: [""], resources: [pods], verbs: [list]}'
    assert refused(discover(api)) == (
        f"the service account may not list pods of namespace team; its Role needs the rule {rule}"
    )
    documents = yaml.safe_load_all((FOLDER / "access.yaml").read_text())
    (role,) = (one for one in documents if one["kind"] == "Role")
    assert role["rules"] == [yaml.safe_load(rule)]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ((401, {}), "the Kubernetes API answers 401 Unauthorized"),
        ((500, {}), "the Kubernetes API answers 500 Internal Server Error"),
        ((200, {"kind": "Status"}), "the Kubernetes API gives no list of pods: KeyError('items')"),
        ((200, []), "the Kubernetes API gives no list of pods: TypeError("),
    ],
)
def test_another_answer_than_a_list_is_an_error(api, answer, line):
    api.answer = answer
    assert refused(discover(api)).startswith(line)


def test_an_answer_that_is_cut_off_is_an_error(api):
    api.cut = True
    assert refused(discover(api)).startswith("the Kubernetes API gives no list of pods: Incomplete")


def test_an_api_that_does_not_answer_is_named(api):
    line = refused(discover(api, KUBERNETES_SERVICE_PORT="1"))
    assert line.startswith("no answer of the Kubernetes API at 127.0.0.1:1: ")
    assert "Connection refused" in line


def test_a_server_of_another_authority_gets_no_token(api, tmp_path):
    other = tmp_path / "other"
    make_certificate(other)
    shutil.copy(other / "ca.crt", api.folder / "ca.crt")
    assert "certificate verify failed" in refused(discover(api))
    assert api.queries == []


def test_missing_settings_and_files_are_named(api):
    line = refused(discover(api, POD_SELECTOR=None))
    assert line == "POD_SELECTOR is not set; give the labels of the workers' pods"
    line = refused(discover(api, KUBERNETES_SERVICE_HOST=None))
    assert line == "KUBERNETES_SERVICE_HOST is not set; kubelet sets it in pods"
    (api.folder / "token").unlink()
    assert refused(discover(api)).endswith("token'; is automountServiceAccountToken false?")


def test_ronde_run_grows_and_shrinks_with_the_pods_and_keeps_hosts_without_an_answer(api, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    first, second = (pod(f"w{n}", address=f"127.0.0.{n}") for n in (2, 3))
    api.list(first)
    command = [sys.executable, "-m", "ronde", "run", "--min-np", "1", "--max-np", "4"]
    command += ["--host-discovery-script", str(SCRIPT), "--", sys.executable, str(script)]
    job = subprocess.Popen(
        ["timeout", "--kill-after=5", "90", *command],
        env=os.environ | api.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # A text of the launcher, and the API's act that follows it.
    acts = [
        ("epoch 1: ", lambda: api.list(first, second)),
        ("epoch 2: ", lambda: setattr(api, "answer", (403, {}))),
        ("the hosts stay as they are", lambda: api.list(second)),
        ("epoch 3: ", lambda: None),
    ]
    said, missing = follow(job.stdout, acts)
    assert (job.wait(), missing) == (0, []), said
    assert "[1] trained on 1\n" in said


def test_an_mpijob_follows_its_pods_and_a_deleted_one_waits_until_its_rank_has_left(tmp_path):
    if (reason := why_not()) or shutil.which("kubectl") is None:
        pytest.skip(reason or "kubectl is not installed")
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    command = ["kubectl", "kustomize", str(FOLDER)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=480, check=True).stdout
    (job,) = (one for one in yaml.safe_load_all(built) if one["kind"] == "MPIJob")
    worker, launcher = container(job, "Worker"), container(job, "Launcher")
    *_, hook = worker["lifecycle"]["preStop"]["exec"]["command"]
    player = [sys.executable, str(Path(__file__).with_name("mpi_elastic.py")), str(SCRIPT), hook]
    words = [*launcher["command"], *with_script(launcher["args"], script)]
    done = run(shlex.join(worker["command"]), [*player, *words])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "worker 2 starts on ronde-train-worker-1.ronde-train.team.svc\n" in done.stdout, said
    assert "[0] trained on 1\n" in done.stdout, said
    assert "hooks ended: [0] missing: []\n" in done.stdout, said


def test_the_launcher_runs_as_the_account_that_may_list_pods():
    documents = list(yaml.safe_load_all((FOLDER / "access.yaml").read_text()))
    account, role, binding = documents
    assert [one["kind"] for one in documents] == ["ServiceAccount", "Role", "RoleBinding"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["metadata"]["name"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    changes = {
        one["path"]: one["value"] for one in yaml.safe_load((FOLDER / "launcher.yaml").read_text())
    }
    pods = "/spec/mpiReplicaSpecs/Launcher/template/spec"
    assert changes[f"{pods}/serviceAccountName"] == account["metadata"]["name"]
    (mount,) = changes[f"{pods}/containers/0/volumeMounts"]
    assert changes[f"{pods}/containers/0/command/3"] == f"{mount['mountPath']}/{SCRIPT.name}"
    (variable,) = changes[f"{pods}/containers/0/env"]
    assert variable["name"] == "POD_SELECTOR"
