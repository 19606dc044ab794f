"""Faults that `ronde run --inject` plants: each is planted where it is asked for, and found."""

import json
import os
import re
import sys

import jobs
import pytest
from slow_link import start_ranks, two_hosts, write_secret

TRAINING = """
import sys
import ronde, ronde.torch as hvd, torch
hvd.init()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
torch.manual_seed(hvd.rank())
for step in range(12):
    optimizer.zero_grad()
    net(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
sys.stdout.write(f"@{hvd.rank()} trained\\n")
"""

OPERATIONS = """
import sys, time
import numpy as np, ronde
ronde.init()
begin = time.monotonic()
for step in range(12):
    for name in ("first.weight", "first.bias"):
        ronde.allreduce(np.arange(8, dtype=np.float32) + ronde.rank(), name=name)
    ronde.mark_step()
sys.stdout.write(f"@{ronde.rank()} trained\\n")
sys.stdout.write(f"took {time.monotonic() - begin:.2f}\\n")
"""


def run(tmp_path, np, *options, script=TRAINING, environment=None):
    path = tmp_path / "script.py"
    path.write_text(script)
    return jobs.finish(jobs.launch([sys.executable, str(path)], np, environment, options))


def trained(output):
    return sorted(re.findall(r"@(\d) trained", output))


def test_a_flipped_bit_of_a_parameter_is_found_by_the_replica_check(tmp_path):
    pytest.importorskip("torch")
    fault = "flip:rank=1,tensor=1.weight,step=5,element=35,bit=29"
    status, output = run(tmp_path, 3, "--check-replicas", "1", "--inject", fault)
    assert status == 0, output
    planted = 'planted flip of bit 29 of element 35 of "1.weight" after step 5'
    assert output.count(planted) == 1, output
    found = 'the replicas differ after step 5: "1.weight" (float32[4, 16]) has another value on '
    assert found + "rank 1 than on rank 0: element [2, 3] is" in output
    assert trained(output) == ["0", "1", "2"]


def test_a_flipped_bit_of_the_state_is_found_and_repaired(tmp_path):
    pytest.importorskip("torch")
    fault = "flip:rank=2,tensor=exp_avg of 0.weight,step=3"
    options = ["--check-replicas", "1", "--replica-action", "repair", "--inject", fault]
    status, output = run(tmp_path, 3, *options)
    assert status == 0, output
    said = r'differ after step 3: "exp_avg of 0\.weight" \(float32\[16, 8\]\) has another value on'
    assert len(re.findall(said + " rank 2 than on rank 0", output)) == 1, output
    assert output.count("repaired: 1 tensors") == 1, output


def test_a_drift_is_found_from_its_step_on(tmp_path):
    pytest.importorskip("torch")
    fault = "drift:rank=1,tensor=0.bias,step=4,factor=1.0001"
    status, output = run(tmp_path, 3, "--check-replicas", "2", "--inject", fault)
    assert status == 0, output
    assert 'planted drift of "0.bias" after step 4 and each later one' in output
    assert 'the replicas differ after step 4: "0.bias" (float32[16])' in output


def test_the_first_step_finds_what_was_flipped_before_it(tmp_path):
    pytest.importorskip("torch")
    script = TRAINING.replace("range(12)", "range(2)").replace(
        "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)",
        "first = torch.optim.SGD(net.parameters(), lr=0.0)\n"
        "first = hvd.DistributedOptimizer(first, net.named_parameters())\n"
        "first.zero_grad(); net(torch.ones(4, 8)).mean().backward(); first.step()\n"
        "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)",
    )
    fault = "flip:rank=1,tensor=0.weight,step=1"
    status, output = run(tmp_path, 2, "--inject", fault, script=script)
    assert status == 0, output
    assert "planted flip of bit 29 of element 0 of " in output
    assert "the ranks train different models: parameter " in output


def test_a_slow_rank_is_slow(tmp_path):
    fault = "slow:rank=1,tensor=bias,step=11,seconds=0.4"
    status, output = run(tmp_path, 2, "--inject", fault, script=OPERATIONS)
    assert status == 0, output
    assert output.count('planted slow before allreduce "first.bias"') == 1, output
    assert all(float(took) >= 0.8 for took in re.findall(r"took (\S+)", output))


def test_a_killed_rank_is_told_as_killed(tmp_path):
    status, output = run(tmp_path, 2, "--inject", "kill:rank=1,step=6", script=OPERATIONS)
    assert status == 128 + 9, output
    assert "planted kill before allreduce" in output
    assert trained(output) == []


def test_a_restart_plants_nothing_again(tmp_path):
    options = ["--restarts", "1", "--inject", "kill:rank=1,step=6"]
    status, output = run(tmp_path, 2, *options, script=OPERATIONS)
    assert status == 0, output
    assert output.count("planted kill") == 1, output
    assert trained(output) == ["0", "1"]


@pytest.mark.parametrize(
    ("fault", "seconds", "heals"),
    [("cut:rank=1,step=6,peer=0", "10", True), ("cut:rank=1,step=6", "0", False)],
)
def test_cut_connections_between_hosts_heal_or_end_the_job(tmp_path, fault, seconds, heals):
    script = OPERATIONS.replace("np.arange(8,", "np.arange(100_000,")
    settings = {
        "RONDE_INJECT": f"--inject {fault}",  # as `ronde run` sets it
        "RONDE_NETWORK_INTERFACE": "link0",
        "RONDE_RECONNECT_SECONDS": seconds,
        "RONDE_SECRET_FILE": write_secret(tmp_path / "secret"),
    }
    with two_hosts() as hosts:
        told = start_ranks(hosts, script, tmp_path, settings)
    output = "\n".join(text for _, *texts in told for text in texts)
    assert re.search(r"planted cut: \d+ connections", output), output
    assert all((status == 0) == heals for status, *_ in told), output
    assert trained(output) == (["0", "1"] if heals else [])


def test_a_flip_in_a_result_is_found_by_the_check_of_means(tmp_path):
    fault = "flip:rank=1,tensor=first.bias,step=7,element=2,where=result"
    trace = tmp_path / "trace.json"  # names stay the user's
    options = ["--check-mean", "bias", "--inject", fault, "--timeline", str(trace)]
    status, output = run(tmp_path, 2, *options, script=OPERATIONS)
    assert status == 0, output
    assert 'of element 2 in the result of "first.bias"' in output
    wrong = re.findall(r'the result of "first\.bias" is wrong by (\S+) ulp, (.*)', output)
    assert len(wrong) == 1, output
    assert wrong[0][1].startswith("at element 2 on rank 1: ")
    assert wrong[0][1].endswith("; step 7")


SUMS = """
import sys
import numpy as np, ronde
ronde.init()
try:
    for step in range(12):
        for name in ("first.weight", "first.bias"):
            ronde.allreduce(np.ones(50_000, np.float32), name=name)
        ronde.mark_step()
    sys.stdout.write(f"@{ronde.rank()} trained\\n")
except ronde.CorruptedError as error:
    sys.stdout.write(f"@{ronde.rank()} after {step} steps: {error}\\n")
"""


def test_a_wrong_sum_is_an_error_on_all_ranks_that_names_who_computed_it(tmp_path):
    fault = "sum:rank=1,tensor=first.bias,step=4"
    options = ["--check-sums", "1", "--checksums", "1", "--inject", fault]
    status, output = run(tmp_path, 2, *options, script=SUMS)
    assert status == 0, output
    assert 'planted sum in "first.bias" and each later one' in output
    told = re.findall(r"@(\d) after (\d+) steps: (.*)", output)
    assert sorted(rank for rank, *_ in told) == ["0", "1"], output
    assert told[0][1:] == told[1][1:]
    assert int(told[0][1]) >= 3
    text = (
        r'allreduce "first\.bias" \(.*\): rank 1 computed a wrong sum, among the elements '
        r"(\d+) to (\d+): element \1 is \S+ on rank 0, 1, the inputs of all ranks give 1"
    )
    assert re.fullmatch(text, told[0][2]), told


def test_without_the_check_wrong_sums_go_unseen(tmp_path):
    fault = "sum:rank=1,tensor=first.bias,step=4"
    status, output = run(tmp_path, 2, "--checksums", "1", "--inject", fault, script=SUMS)
    assert status == 0, output
    assert "planted sum" in output
    assert trained(output) == ["0", "1"]


def test_faults_are_marked_in_the_timeline(tmp_path):
    trace = tmp_path / "trace.json"
    faults = ["--inject", "nan:rank=0,tensor=bias,step=2"]
    faults += ["--inject", "flip:rank=1,tensor=weight,step=2,where=result"]
    options = ["--timeline", str(trace), *faults]
    status, output = run(tmp_path, 2, *options, script=OPERATIONS)
    assert status == 0, output
    names = [event.get("name", "") for event in json.loads(trace.read_text())]
    assert sum(name.startswith("planted nan") for name in names) == 1
    assert sum(name.startswith("planted flip") for name in names) == 1


def test_drills_that_planted_nothing_say_so(tmp_path):
    faults = [
        "nan:rank=1,tensor=nowhere",
        "flip:rank=1,tensor=first.weight,step=5",
        "cut:rank=1",
        "kill:rank=1,step=99",
    ]
    options = [word for fault in faults for word in ("--inject", fault)]
    status, output = run(tmp_path, 2, *options, script=OPERATIONS)
    assert status == 0, output
    for fault in faults:
        assert output.count(f"the drill planted nothing: {fault}: ") == 1, output


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("melt:rank=1", "allowed: nan:rank=RANK"),
        ("flip:rank=1", "allowed: flip:rank=RANK,tensor=NAME[,step=NUMBER]"),
        ("slow:rank=1,seconds=soon", "allowed: slow:rank=RANK,seconds=NUMBER"),
        ("kill:rank=2", "--inject kill:rank=2: allowed are ranks 0 to 1"),
    ],
)
def test_a_wrong_fault_is_refused_with_what_is_allowed(tmp_path, fault, said):
    status, output = run(tmp_path, 2, "--inject", fault, script="import ronde\nronde.init()")
    assert status != 0
    assert said in output


def test_a_fault_that_is_left_in_the_environment_is_refused(tmp_path):
    environment = {"RONDE_INJECT": "kill:rank=0"}
    status, output = run(tmp_path, 2, script="print('it started')", environment=environment)
    assert status != 0
    assert "unset RONDE_INJECT" in output
    assert "it started" not in output


def test_a_fault_that_a_script_sets_is_refused(tmp_path):
    script = "import os, ronde\nos.environ['RONDE_INJECT'] = 'kill:rank=0'\nronde.init()"
    status, output = run(tmp_path, 1, script=script)
    assert status != 0
    assert "InvalidArgumentError" in output
    assert "unset RONDE_INJECT" in output


HEALTHY = """
import sys
import ronde.torch as hvd, torch
kind, steps = sys.argv[1], int(sys.argv[2])
hvd.init()
torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
options = {"shard": "optimizer"} if kind == "sharded" else {}
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters(), **options)
torch.manual_seed(hvd.rank())

def step():
    optimizer.zero_grad()
    net(torch.randn(4, 4)).sum().backward()
    optimizer.step()

def train(state):
    while state.done < steps:
        step()
        state.done += 1
        if state.done % 1000 == 0:
            state.commit()

if kind == "elastic":
    hvd.elastic.run(train)(hvd.elastic.TorchState(net, optimizer, done=0))
else:
    for _ in range(steps):
        step()
sys.stdout.write(f"@{hvd.rank()} trained\\n")
"""

ALL_CHECKS = ["--check-replicas", "1", "--check-nonfinite", "warn", "--check-mean", "weight"]
ALL_CHECKS += ["--checksums", "1", "--check-sums", "10"]
VOLUME = os.environ.get("RONDE_TEST_VOLUME") == "all"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "sharded", "elastic"] if VOLUME else ["dense"])
def test_all_checks_are_silent_in_healthy_steps(tmp_path, kind):
    pytest.importorskip("torch")
    steps = 34_000 if VOLUME else 10_000
    path = tmp_path / "script.py"
    path.write_text(HEALTHY)
    options = [*ALL_CHECKS, *(["--min-np", "1"] if kind == "elastic" else [])]
    job = jobs.launch([sys.executable, str(path), kind, str(steps)], 2, options=options)
    status, output = jobs.finish(job)
    assert status == 0, output
    assert trained(output) == ["0", "1"]
    for fault in ("differ", "put in", "overflowed", "wrong", "different models", "Corrupted"):
        assert fault not in output
    if kind != "sharded":  # its gradients go by reduce_scatter
        counted = rf"{steps} operations of .* the largest error was 0\.\d+ ulp"
        assert re.search(counted, output), output
