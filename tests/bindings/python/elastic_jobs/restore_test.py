"""Jobs of which all workers die at once: new ones go on from the copies that outlived them."""

import re

import pytest

PREPARE = """
    import os, signal, sys, time
    from pathlib import Path
    import numpy as np
    import ronde
    from ronde._snapshots import copy_memory

    folder, ranks, where = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    worker = int(os.environ["RONDE_WORKER"])

    def die_together():
        (folder / f"ready.{worker}").touch()
        while not all((folder / f"ready.{w + 1}").exists() for w in range(ranks)):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    def die_while_copying(filling):
        copy(filling, half=True)
        die_together()

    def copy(filling, half=False):
        pairs = filling._pairs[: len(filling._pairs) // 2] if half else filling._pairs
        for target, array in pairs:
            target[...] = array

    def step_is_over(step):
        if step == 7 and worker <= ranks:
            if where == "before":
                die_together()
            copy_memory.Filling.copy = die_while_copying
"""

ARRAYS = (
    PREPARE
    + """
    ronde.init()
    state = ronde.elastic.ArrayState(
        total=np.zeros(100_000), more=np.zeros(1000), step=0, seen=[], mine=0, own=("mine",)
    )

    @ronde.elastic.run
    def train(state):
        print(f"from {state.step}", flush=True)
        while state.step < 12:
            state.total += ronde.allreduce(np.ones(100_000), "a")
            state.more += 1
            state.step += 1
            state.seen.append(state.step)
            state.mine += 100 ** ronde.rank()
            step_is_over(state.step)
            state.commit()

    train(state)
    assert (state.total == 12).all() and (state.more == 12).all()
    assert state.seen == list(range(1, 13)), state.seen
    print(f"end {state.mine}", flush=True)
"""
)


@pytest.mark.parametrize("where", ["before", "while copying"])
@pytest.mark.parametrize("ranks", [1, 3])
def test_a_job_goes_on_from_the_last_commit_though_all_workers_die(run_job, tmp_path, ranks, where):
    status, output = run_job(
        ARRAYS, ranks, [tmp_path, ranks, where], options=["--min-np", str(ranks)]
    )
    assert status == 0, output
    assert output.count("from 0") == ranks, output
    assert output.count("from 6") == ranks, output
    ends = [int(end) for end in re.findall(r"end (\d+)", output)]
    assert sum(ends) == sum(12 * 100**rank for rank in range(ranks)), output


TORCH = (
    PREPARE
    + """
    import torch
    import ronde.torch as hvd

    def copy(filling, half=False):
        pairs = filling._pairs[: len(filling._pairs) // 2] if half else filling._pairs
        for target, array in pairs:
            target.copy_(array)

    hvd.init()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(1000))
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, step=0)
    inputs = torch.arange(40.0).reshape(10, 4) / 40

    @hvd.elastic.run
    def train(state):
        print(f"from {state.step} {sampler.processed_num}", flush=True)
        while state.step < 12:
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            sampler.record_batch(state.step, 5)
            state.step += 1
            step_is_over(state.step)
            state.commit()

    train(state)
    values = [*model.state_dict().values()]
    for moments in optimizer.state_dict()["state"].values():
        values += [moments["step"], moments["exp_avg"], moments["exp_avg_sq"]]
    print("end", sum(v.double().sum() for v in values).item(), flush=True)
"""
)


def test_models_and_optimizers_go_on_as_if_nothing_had_happened(run_job, tmp_path):
    ends = []
    for ranks, where in ((2, "while copying"), (0, "never")):
        folder = tmp_path / where.split()[0]
        folder.mkdir()
        status, output = run_job(TORCH, 2, [folder, ranks, where], options=["--min-np", "2"])
        assert status == 0, output
        assert output.count("from 6 60") == ranks, output
        ends.append(sorted(re.findall(r"end (\S+)", output)))
    assert len(set(ends[0])) == 1
    assert ends[0] == ends[1]


def test_a_state_that_cannot_be_pickled_is_not_resumed(run_job, tmp_path):
    script = ARRAYS.replace('own=("mine",)', 'sign=lambda: 1, own=("mine", "sign")')
    status, output = run_job(script, 1, [tmp_path, 1, "before"], options=["--min-np", "1"])
    assert status not in (0, None), output
    assert "copies of the state end with this process" in output
    assert "every worker that held the state has ended" in output


KERAS = (
    PREPARE
    + """
    import keras
    import ronde.keras as hvd
    from ronde.keras.elastic import KerasState, run

    hvd.init()
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    state = KerasState(model, step=0, expected=None)
    def values():
        return [np.array(v) for v in [*model.variables, *model.optimizer.variables]]

    @run
    def train(state):
        if state.expected is not None:
            assert all(map(np.array_equal, values(), state.expected))
        print(f"from {state.step}", flush=True)
        while state.step < 9:
            model.train_on_batch(np.ones((4, 2)) * state.step, np.zeros((4, 3)))
            state.step += 1
            state.expected = values()
            step_is_over(state.step)
            state.commit()

    train(state)
"""
)


def test_keras_models_go_on(run_job, tmp_path):
    pytest.importorskip("keras")
    status, output = run_job(KERAS, 1, [tmp_path, 1, "before"], options=["--min-np", "1"])
    assert status == 0, output
    assert output.count("from 6") == 1, output
