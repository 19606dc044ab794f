"""Jobs that compare their replicas: options of `ronde run`, faults from outside, elastic jobs."""

import json
import re
import sys
import time
from pathlib import Path

import pytest
from drill import flip_outside
from jobs import finish, launch

pytest.importorskip("torch")

ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
TRAINING = """
    import sys, torch
    import ronde.torch as hvd
    from drill import flip

    hvd.init()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
    count = 0

    def plant(*_):
        global count
        count += 1
        if count == 7 and hvd.rank() == 1:
            flip(optimizer.state[net[1].weight]["exp_avg"], 35, 29)

    optimizer.register_step_post_hook(plant)
    torch.manual_seed(hvd.rank())
    for step in range(20):
        optimizer.zero_grad()
        net(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    print("alike:", optimizer.check_replicas(), flush=True)
"""
# The step of Adam after the flip has made the parameter another one, too.
REPORT = (
    r'the replicas differ after step 10: "1\.weight" \(float32\[4, 16\]\) has another value on '
    r"rank 1 than on rank [02]: element \[2, 3\] is \S+ \(0x[0-9a-f]{8}\) on rank [02], \S+ "
    r"\(0x[0-9a-f]{8}\) on rank 1; 1 more differ: "
    r'"exp_avg of 1\.weight" \(float32\[4, 16\]\) on rank 1; they may differ since step 6'
)


@pytest.mark.parametrize("np", [2, 3, 4])
@pytest.mark.parametrize("action", ["warn", "fail", "repair"])
def test_each_action_names_the_flip(run_job, np, action):
    options = ["--check-replicas", "5", *(["--replica-action", action] if action != "warn" else [])]
    status, output = run_job(TRAINING, np, options=options, environment=ENVIRONMENT)
    found = re.findall(REPORT, output)
    if action == "fail":
        assert status != 0
        raised = re.findall(r"\[(\d)\] MismatchError: the replicas differ after step 10", output)
        assert sorted(raised) == [str(rank) for rank in range(np)], output
        return
    assert status == 0, output
    # Rank 0 and rank 1 tell; the launcher prints a line once that several ranks write.
    assert len(found) == 1, output
    assert output.count(f"alike: {action == 'repair'}") == np, output
    assert ("repaired: 2 tensors" in output) == (action == "repair"), output


def test_a_flip_in_the_last_step_is_named_as_the_job_ends(run_job):
    script = TRAINING.replace("range(20)", "range(7)")
    script = script[: script.index("    print(")]
    options = ["--check-replicas", "1", "--replica-action", "fail"]
    status, output = run_job(script, 2, options=options, environment=ENVIRONMENT)
    assert status == 0, output
    said = r'the replicas differ after step 7: "exp_avg of 1\.weight" .* since step 7'
    assert re.search(said, output), output
    assert "left the job" not in output, output


def test_the_last_comparison_does_not_hold_up_the_end(run_job):
    options = ["--check-replicas", "1"]
    script = TRAINING.replace("count == 7", "False")
    script = script[: script.index("    print(")]
    status, output = run_job(script, 3, options=options, environment=ENVIRONMENT)
    assert status == 0, output
    assert "replicas" not in output, output


def test_a_repair_is_marked_in_the_timeline(run_job, tmp_path):
    trace = tmp_path / "trace.json"
    options = ["--check-replicas", "5", "--replica-action", "repair", "--timeline", str(trace)]
    status, output = run_job(TRAINING, 2, options=options, environment=ENVIRONMENT)
    assert status == 0, output
    names = [event.get("name", "") for event in json.loads(trace.read_text())]
    assert names.count("repaired 2 tensors") == 2, sorted(set(names))


FROM_OUTSIDE = """
    import os, time, torch
    import ronde.torch as hvd

    hvd.init()
    weight = torch.nn.Parameter(torch.arange(1, 65) * 1.2345)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    optimizer = hvd.DistributedOptimizer(optimizer, [("planted", weight)])
    print("pid of", hvd.rank(), "is", os.getpid(), flush=True)
    for step in range(4000):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
        time.sleep(0.01)
"""


def test_a_bit_that_a_debugger_flips_is_found(tmp_path):
    import torch

    path = tmp_path / "script.py"
    path.write_text("\n".join(line[4:] for line in FROM_OUTSIDE.splitlines()))
    options = ["--check-replicas", "1", "--replica-action", "fail"]
    job = launch([sys.executable, str(path)], 3, None, options)
    pids = {}
    lines = []
    while len(pids) < 3:
        lines.append(job.stdout.readline())
        assert lines[-1], "".join(lines)
        if found := re.search(r"pid of (\d) is (\d+)", lines[-1]):
            pids[int(found[1])] = int(found[2])
    time.sleep(0.5)
    pattern = (torch.arange(1, 65) * 1.2345).numpy().tobytes()
    assert flip_outside(pids[2], pattern, 4 * 40 + 3, 6) >= 1
    status, output = finish(job)
    assert status != 0
    said = (
        r'"planted" \(float32\[64\]\) has another value on rank 2 than on rank 0: '
        r"element \[40\] is 50\.6"
    )
    raised = re.findall(
        r"\[(\d)\] MismatchError: the replicas differ after step \d+: " + said, output
    )
    assert sorted(raised) == ["0", "1", "2"], output


ELASTIC = """
    import os, signal, torch
    import ronde.torch as hvd
    from ronde._membership import epochs

    hvd.init()
    torch.manual_seed(os.getpid())
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
    state = hvd.elastic.TorchState(model=net, optimizer=optimizer, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < 12:
            optimizer.zero_grad()
            net(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            epoch = 1 + state.step // 4
            if state.step in (3, 7) and epochs.place().epoch == epoch and hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            state.step += 1
            state.commit()
        assert optimizer.check_replicas()
        print("ended in epoch", epochs.place().epoch, flush=True)

    train(state)
"""


def test_workers_that_join_later_are_no_alarm(run_job):
    options = ["--min-np", "2", "--check-replicas", "1", "--replica-action", "fail"]
    status, output = run_job(ELASTIC, 3, options=options)
    assert status == 0, output
    assert "replicas differ" not in output
    assert len(re.findall(r"ended in epoch [3-9]", output)) >= 2, output


DRAWN = """
    import random, torch
    import ronde.torch as hvd
    from unittest import mock
    from drill import flip
    from ronde import _core

    hvd.init()
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(16)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), norm, torch.nn.Linear(16, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
    torch.manual_seed(hvd.rank())
    draw = random.Random(5)  # the same on all ranks
    right = 0
    for _ in range(1000):
        optimizer.zero_grad()
        net(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        places = []
        for name, parameter in net.named_parameters():
            places.append((name, parameter))
            for key, value in sorted(optimizer.state[parameter].items()):
                places.append((f"{key} of {name}", value))
        name, tensor = draw.choice(places)
        sick, element = draw.randrange(hvd.size()), draw.randrange(tensor.numel())
        bit = draw.randrange(32)
        if hvd.rank() == sick:
            flip(tensor, element, bit)
        index = [int(i) for i in torch.unravel_index(torch.tensor(element), tensor.shape)]
        place = f"element {index}" if index else "its value"
        said = []
        with mock.patch.object(_core.Runtime, "warn", lambda _, text: said.append(text)):
            found = not optimizer.check_replicas()
        # Rank 0 and the sick one tell. A step count is 0-dimensional.
        text = "".join(said) or '"'
        usual = 1 if sick == 0 else 0
        wanted = f'"{name}" ('
        named = wanted in text and f"on rank {sick} than on rank {usual}: {place} is" in text
        right += found and (named or hvd.rank() not in (0, sick)) and optimizer.check_replicas()
    print("right:", right, flush=True)
"""


@pytest.mark.slow
def test_a_thousand_drawn_flips_are_each_found_named_and_repaired(run_job):
    options = ["--replica-action", "repair"]
    status, output = run_job(DRAWN, 4, options=options, environment=ENVIRONMENT)
    assert status == 0, output
    assert output.count("right: 1000") == 4, output
