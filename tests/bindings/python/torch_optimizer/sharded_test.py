"""Jobs with sharded optimizers: other numbers of ranks, checks, memory, and ranks that fail."""

import re

import pytest
import torch
from ronde.torch.sharded_muon import is_hidden

MODEL = """
    import os, signal, sys, time
    from pathlib import Path
    import pytest
    import torch
    import ronde
    import ronde.torch as hvd

    hvd.init()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(9, 133), torch.nn.Tanh(), torch.nn.Linear(133, 17), torch.nn.Linear(17, 5)
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters(), shard="gradients"
    )

    def batch(step):
        return torch.randn(4, 9, generator=torch.Generator().manual_seed(step))

    def train(steps):
        for step in steps:
            optimizer.zero_grad()
            model(batch(step)).pow(2).sum().backward()
            optimizer.step()
"""

SAVE = (
    MODEL
    + """
    folder = Path(sys.argv[1])
    train(range(3))
    whole = optimizer.state_dict()
    torch.save(optimizer.state_dict(sharded=True), folder / f"shard{hvd.rank()}")
    if hvd.rank() == 0:
        torch.save((model.state_dict(), whole), folder / "whole")
        import torch.distributed.checkpoint as dcp
        dcp.save({"optimizer": whole}, checkpoint_id=folder / "dcp", no_dist=True)
    train(range(3, 6))
    if hvd.rank() == 0:
        torch.save(model.state_dict(), folder / "end")
"""
)

LOAD = (
    MODEL
    + """
    folder, way = Path(sys.argv[1]), sys.argv[2]
    saved, whole = torch.load(folder / "whole")
    model.load_state_dict(saved)
    shards = [torch.load(path) for path in sorted(folder.glob("shard*"))]
    if way == "whole":
        optimizer.load_state_dict(whole)
    elif way == "shards":
        with pytest.raises(ronde.MismatchError, match="saved by 4 ranks, but"):
            optimizer.load_state_dict(shards[hvd.rank()])
        optimizer.load_state_dict(hvd.merge_sharded_states(shards))
    else:
        import torch.distributed.checkpoint as dcp
        train([0])  # so that there is a state to load into
        model.load_state_dict(saved)
        target = {"optimizer": optimizer.state_dict()}
        dcp.load(target, checkpoint_id=folder / "dcp", no_dist=True)
        optimizer.load_state_dict(target["optimizer"])
    train(range(3, 6))
    for name, value in torch.load(folder / "end").items():
        found = model.state_dict()[name]
        assert torch.allclose(found, value, atol=1e-6), (name, (found - value).abs().max())
    print("as before", flush=True)
"""
)


def test_a_state_saved_by_four_ranks_loads_on_others(run_job, tmp_path):
    status, output = run_job(SAVE, 4, [tmp_path])
    assert status == 0, output
    for ranks, way in ((2, "whole"), (3, "shards"), (2, "dcp"), (1, "whole")):
        status, output = run_job(LOAD, ranks, [tmp_path, way])
        assert status == 0, (way, output)
        assert output.count("as before") == ranks


NONFINITE = (
    MODEL
    + """
    train([0])
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.zero_grad()
    loss = model(batch(1)).pow(2).sum()
    (loss * float("nan") if hvd.rank() == 1 else loss).backward()
    if sys.argv[1] == "skip":
        optimizer.step()
        assert all(map(torch.equal, before, model.parameters()))
        train([2])
        assert not any(map(torch.equal, before, model.parameters()))
    else:
        with pytest.raises(ronde.NonFiniteError, match="on rank 1|rank 1"):
            optimizer.step()
    print("looked", flush=True)
"""
)


def test_nan_of_one_rank_is_told_of_sharded_gradients(run_job):
    for way in ("skip", "fail"):
        status, output = run_job(NONFINITE, 2, [way], {"RONDE_CHECK_NONFINITE": way})
        assert status == 0, output
        assert output.count("looked") == 2
        assert re.search(r"\d\.(weight|bias), its element \d+", output) or way == "fail", output


MEMORY = """
    import sys
    import torch
    import ronde.torch as hvd

    def anonymous():
        text = open("/proc/self/status").read()
        return int(text.split("RssAnon:")[1].split()[0]) * 1024

    hvd.init()
    torch.set_num_threads(1)
    way = sys.argv[1] if sys.argv[1] != "dense" else None
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(8)])
    inner = torch.optim.Adam(model.parameters(), foreach=False)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), shard=way)
    model(torch.ones(1, 1024)).sum().backward()
    optimizer.synchronize()
    before = anonymous()
    with optimizer.skip_synchronize():
        optimizer.step()
    print("grew", anonymous() - before, flush=True)
"""


def test_the_state_of_adam_takes_a_quarter_of_the_memory_on_four_ranks(run_job):
    grown = {}
    for way in ("dense", "optimizer", "gradients"):
        # Large tensors leave the heap's free memory alone.
        environment = {"MALLOC_MMAP_THRESHOLD_": "65536"}
        status, output = run_job(MEMORY, 4, [way], environment)
        assert status == 0, output
        grown[way] = max(map(int, re.findall(r"grew (-?\d+)", output)))
    assert grown["dense"] >= 60 << 20, grown
    for way in ("optimizer", "gradients"):
        assert grown[way] <= grown["dense"] / 4 + (1 << 20), grown


KILLED = (
    MODEL
    + """
    train([0])
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(ronde.RankFailure, match="rank 1"):
        train(range(1, 9))
    print("told", flush=True)
"""
)


def test_ranks_are_told_of_one_that_died(run_job):
    status, output = run_job(KILLED, 3)
    assert status != 0
    assert output.count("told") == 2, output


ALONE = (
    MODEL
    + """
    train([0])
    if hvd.rank() == 0:
        with pytest.raises(ronde.StalledError, match="which all ranks must ask for"):
            optimizer.state_dict()
        print("told", flush=True)
    else:
        time.sleep(4)
"""
)


def test_a_state_dict_on_one_rank_alone_says_that_all_must_ask(run_job):
    _, output = run_job(ALONE, 2, environment={"RONDE_STALL_ERROR_SECONDS": "1"})
    assert "told" in output, output


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("tok_embeddings.weight", False),
        ("bert.embeddings.word_embeddings.weight", False),
        ("token_embedding_table.weight", False),
        ("embed_tokens.weight", False),
        ("model.Embedding.weight", False),
        ("transformer.wte.weight", False),
        ("transformer.wpe.weight", False),
        ("lm_head.weight", False),
        ("head.weight", False),
        ("output.weight", False),
        ("layers.0.multihead_attn.in_proj_weight", True),
        ("layers.0.feed_forward.w1.weight", True),
        ("layers.0.attention.wq.weight", True),
        ("layers.0.attention.wq.bias", False),
    ],
)
def test_embeddings_and_heads_are_not_hidden(name, hidden):
    assert is_hidden(name, torch.empty([2] * (2 - name.endswith("bias")))) == hidden
