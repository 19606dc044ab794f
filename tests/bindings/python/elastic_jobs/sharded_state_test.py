"""Sharded optimizers in elastic jobs: their state outlives a rank."""

import re

import pytest

TRAINING = """
    import os, signal, sys
    from pathlib import Path
    import torch
    import ronde.torch as hvd

    folder, victim, way = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    hvd.init()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 33), torch.nn.Tanh(), torch.nn.Linear(33, 5))
    plain = torch.nn.Sequential(torch.nn.Linear(9, 33), torch.nn.Tanh(), torch.nn.Linear(33, 5))
    plain.load_state_dict(model.state_dict())
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters(), shard=way
    )
    state = hvd.elastic.TorchState(model, optimizer, step=0)

    def batch(step):
        return torch.randn(4, 9, generator=torch.Generator().manual_seed(step))

    killed = folder / "killed"

    @hvd.elastic.run
    def train(state):
        while state.step < 9:
            optimizer.zero_grad()
            model(batch(state.step)).pow(2).sum().backward()  # alike on all ranks
            if state.step == 4 and hvd.rank() == victim and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
            state.step += 1
            state.commit()

    train(state)
    reference = torch.optim.Adam(plain.parameters(), lr=0.01)
    for step in range(9):
        reference.zero_grad()
        plain(batch(step)).pow(2).sum().backward()
        reference.step()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(ours, theirs, atol=1e-5), (ours - theirs).abs().max()
    whole = optimizer.state_dict()["state"]
    for number, values in reference.state_dict()["state"].items():
        assert torch.allclose(whole[number]["exp_avg_sq"], values["exp_avg_sq"], rtol=1e-3)
        assert whole[number]["step"] == 9
    print("done of", hvd.size(), flush=True)
"""


@pytest.mark.parametrize("way", ["optimizer", "gradients"])
@pytest.mark.parametrize("victim", [0, 1])
def test_the_shards_of_a_rank_that_died_are_not_lost(run_job, tmp_path, victim, way):
    options = ["--min-np", "1"]
    status, output = run_job(TRAINING, 3, [tmp_path, victim, way], options=options)
    assert status == 0, output
    assert (tmp_path / "killed").exists()
    assert re.findall(r"done of (\d+)", output), output


def test_a_job_goes_on_alone_with_all_shards(run_job, tmp_path):
    arguments = [tmp_path, 1, "optimizer"]
    status, output = run_job(TRAINING, 2, arguments, options=["--min-np", "1"])
    assert status == 0, output


WITHOUT_COMMIT = """
    import sys
    import pytest
    import torch
    import ronde
    import ronde.torch as hvd

    hvd.init()
    model = torch.nn.Linear(9, 33)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters()), model.named_parameters(), shard="optimizer"
    )
    model(torch.ones(2, 9)).sum().backward()
    optimizer.step()
    whole = optimizer.state_dict()
    if hvd.rank() == int(sys.argv[1]):  # as if a third had left, and the other were new
        optimizer._members = optimizer._members._replace(ranks=[0, 1, 2])
    optimizer._begin_epoch()
    optimizer.zero_grad()
    model(torch.ones(2, 9)).sum().backward()
    with pytest.raises(ronde.InvalidArgumentError, match="shards of 3 ranks are lost"):
        optimizer.step()
    optimizer.load_state_dict(whole)
    optimizer.step()
    print("went on", flush=True)
"""


@pytest.mark.parametrize("survivor", [0, 1])
def test_shards_that_are_lost_are_told_on_all_ranks(run_job, survivor):
    status, output = run_job(WITHOUT_COMMIT, arguments=[survivor])
    assert status == 0, output
    assert output.count("went on") == 2
