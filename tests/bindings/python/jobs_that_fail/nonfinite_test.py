"""Jobs in which one rank reduces NaN or Inf: who it was is told, and the mode is followed."""

import json
import sys

import jobs
import pytest

COLLECTIVES = """
import sys
import numpy as np, ronde
ronde.init()
rank, size = ronde.rank(), ronde.size()

def told(call):
    try:
        call()
        return "fine"
    except ronde.NonFiniteError as error:
        return f"NonFiniteError: {error}"

def sick(count, at):
    array = np.ones(count, np.float32)
    if rank == 1:
        array[at] = np.nan
    return array

big = 3_000_000
lines = [
    told(lambda: ronde.allreduce(sick(40, 7), name="small")),
    told(lambda: ronde.allreduce(sick(big, big - 5), name="large")),
    told(lambda: ronde.reduce_scatter(sick(size * 1000, 1500), name="scattered", op=ronde.Sum)),
    told(lambda: ronde.reduce(sick(5000, 4321), root_rank=0, name="rooted", op=ronde.Sum)),
    told(lambda: ronde.grouped_allreduce(
        [np.ones(3, np.float32), sick(9, 2)], name="group", op=ronde.Sum)),
    told(lambda: ronde.allreduce(np.full(9, 3e38, np.float32), name="flood", op=ronde.Sum)),
    told(lambda: ronde.allreduce(np.ones(big, np.float32), name="healthy")),
]
sys.stdout.write("".join(f"@{rank} {line}\\n" for line in lines))
"""

PLACES = [
    ('"small"', "rank 1 put in NaN at element 7, float32[40]"),
    ('"large"', "rank 1 put in NaN at element 2999995, float32[3000000]"),
    ('"scattered"', "rank 1 put in NaN at element 1500, float32["),
    ('"rooted"', "rank 1 put in NaN at element 4321, float32[5000]"),
    ('"group"', "rank 1 put in NaN at element 2 of tensor 1, float32[9]"),
    ('"flood"', "the sum overflowed to inf at element 0, float32[9], where all ranks' inputs are"),
]


def run(tmp_path, script, np, mode, *options):
    path = tmp_path / "script.py"
    path.write_text(script)
    chosen = ("--check-nonfinite", mode, *options) if mode else options
    return jobs.finish(jobs.launch([sys.executable, str(path)], np, options=chosen))


def said_by(output, rank):
    return [line.split(f"@{rank} ", 1)[1] for line in output.splitlines() if f"@{rank} " in line]


@pytest.mark.parametrize(("np", "backend"), [(2, "auto"), (3, "auto"), (2, "tcp"), (3, "tcp")])
def test_an_error_names_the_rank_and_the_place_on_all_ranks(tmp_path, np, backend):
    status, output = run(tmp_path, COLLECTIVES, np, "fail", "--backend", backend)
    assert status == 0, output
    for rank in range(np):
        said = said_by(output, rank)
        assert len(said) == len(PLACES) + 1, output
        assert said[-1] == "fine"
        for line, (name, place) in zip(said, PLACES):
            assert line.startswith("NonFiniteError: "), output
            assert name in line
            assert place in line


def test_an_error_is_marked_in_the_timeline_of_the_first_rank(tmp_path):
    trace = tmp_path / "trace.json"
    status, output = run(tmp_path, COLLECTIVES, 2, "fail", "--timeline", str(trace))
    assert status == 0, output
    names = [event.get("name", "") for event in json.loads(trace.read_text())]
    for name, place in PLACES:
        assert sum(name in text and place in text for text in names) == 1, names


@pytest.mark.parametrize("mode", ["warn", "skip"])
def test_a_warning_comes_once_and_the_results_as_well(tmp_path, mode):
    status, output = run(tmp_path, COLLECTIVES, 3, mode)
    assert status == 0, output
    assert all(said_by(output, rank) == ["fine"] * (len(PLACES) + 1) for rank in range(3)), output
    for name, place in PLACES:
        warned = [line for line in output.splitlines() if name in line]
        assert len(warned) == 1, output
        assert place in warned[0]


def test_nobody_looks_by_default(tmp_path):
    status, output = run(tmp_path, COLLECTIVES, 2, "")
    assert status == 0, output
    assert " put in " not in output
    assert said_by(output, 0) == ["fine"] * (len(PLACES) + 1)


TRAINING = """
import sys
import ronde, ronde.torch as hvd, torch
hvd.init()
rank = hvd.rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
flat = FLAT
optimizer = hvd.DistributedOptimizer(
    torch.optim.Adam(net.parameters(), lr=0.01), net.named_parameters(), flat_gradients=flat)
lines = []
for step in range(1, 6):
    optimizer.zero_grad()
    batch = torch.full((2, 3), float(step + rank))
    if rank == 1 and step == 3:
        batch[0, 1] = float("nan")
    net(batch).square().mean().backward()
    try:
        optimizer.step()
    except ronde.NonFiniteError as error:
        lines.append(f"step {step}: {error}")
values = torch.cat([p.detach().flatten() for p in net.parameters()])
everyone = hvd.allgather(values[None], name="parameters")
lines.append(f"alike {bool((everyone == everyone[0]).all())}")
lines.append(f"finite {bool(values.isfinite().all())}")
sys.stdout.write("".join(f"@{rank} {line}\\n" for line in lines))
"""

NAMED = "rank 1 put in NaN at element 0 (0.weight, and 3 more), float32[4, 3]; step 3"


@pytest.mark.parametrize("np", [2, 3])
def test_skip_leaves_out_the_step_on_all_ranks_alike(tmp_path, np):
    status, output = run(tmp_path, TRAINING.replace("FLAT", "False"), np, "skip")
    assert status == 0, output
    assert all(said_by(output, rank) == ["alike True", "finite True"] for rank in range(np)), output
    assert output.count(NAMED + "; the step is left out on all ranks") == 1, output


def test_fail_raises_in_step_on_all_ranks_and_training_goes_on(tmp_path):
    status, output = run(tmp_path, TRAINING.replace("FLAT", "False"), 2, "fail")
    assert status == 0, output
    for rank in range(2):
        error, *rest = said_by(output, rank)
        assert error.startswith("step 3: ")
        assert NAMED in error
        assert rest == ["alike True", "finite True"]


def test_warn_lets_the_step_happen(tmp_path):
    status, output = run(tmp_path, TRAINING.replace("FLAT", "False"), 2, "warn")
    assert status == 0, output
    assert output.count(NAMED) == 1, output
    assert said_by(output, 0)[-1] == "finite False"


def test_a_gradient_in_flat_memory_is_named(tmp_path):
    status, output = run(tmp_path, TRAINING.replace("FLAT", "True"), 2, "skip")
    assert status == 0, output
    assert "(1.bias, its element 0)" in output
    assert said_by(output, 1) == ["alike True", "finite True"]


SCALED = """
import sys
import ronde, ronde.torch as hvd, torch
hvd.init()
torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(net.parameters(), lr=1e-6), net.named_parameters())
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=10_000)
scales = []
for step in range(30):
    optimizer.zero_grad()
    scaler.scale(net(torch.full((2, 3), 100.0)).square().mean()).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
assert scales[0] < 2.0**127 and scales[-1] == scales[-2], scales
assert all(p.isfinite().all() for p in net.parameters())
sys.stdout.write(f"@{hvd.rank()} trained\\n")
"""


@pytest.mark.parametrize("mode", ["warn", "fail", "skip"])
def test_steps_that_a_scaler_leaves_out_are_no_fault(tmp_path, mode):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip("this torch has no GradScaler for the CPU")
    status, output = run(tmp_path, SCALED, 2, mode)
    assert status == 0, output
    assert said_by(output, 0) == said_by(output, 1) == ["trained"]
    assert "overflowed" not in output
    assert " put in " not in output


def test_a_planted_nan_is_found_where_it_was_planted(tmp_path):
    script = TRAINING.replace("FLAT", "False").replace("step == 3", "False")
    fault = "nan:rank=1,tensor=1.bias,step=4,element=1"
    status, output = run(tmp_path, script, 2, "skip", "--inject", fault)
    assert status == 0, output
    assert "rank 1 put in NaN at element 1 (1.bias), float32[2]; step 4" in output
    assert said_by(output, 0) == said_by(output, 1) == ["alike True", "finite True"]


def test_a_fault_that_is_none_is_refused_before_the_job_starts(tmp_path):
    status, output = run(tmp_path, TRAINING, 2, "warn", "--inject", "nan:tensor=1.bias")
    assert status != 0
    assert "allowed: nan:rank=RANK,tensor=NAME" in output


def test_an_unknown_mode_is_refused_before_the_job_starts(tmp_path):
    status, output = run(tmp_path, COLLECTIVES, 2, "loud")
    assert status != 0
    assert "--check-nonfinite" in output
    assert "off, warn, fail, skip" in output
