"""Cases for the state of sharded optimizers: saved, loaded, taken over, and given back."""

import copy
import gc
import io
import weakref

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde.torch._sharded.buckets import ShardBucket
from sharded_models import MAKERS, assert_same, batch, distributed, groups_of, tied, train
from torch import nn

RANKS = (2, 4)
OPTIONS = ("--env", "RONDE_DETERMINISTIC=1")


def case_state_is_saved_whole_and_loads_into_the_plain_optimizer():
    plain, model, other = tied(), tied(), tied()
    dense = distributed(plain)
    sharded = distributed(model, shard="optimizer")
    train(plain, dense)
    train(model, sharded)
    expected, found = dense.state_dict(), sharded.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    for number, values in expected["state"].items():
        for key, value in values.items():
            assert torch.equal(found["state"][number][key], value), (number, key)
    other.load_state_dict(model.state_dict())
    resumed = MAKERS["Adam"](groups_of(other))
    resumed.load_state_dict(copy.deepcopy(found))
    resumed = hvd.DistributedOptimizer(resumed, other.named_parameters(), shard="gradients")
    assert_same(train(other, resumed, first=3), train(plain, dense, first=3))
    again = tied()
    again.load_state_dict(model.state_dict())
    loaded = distributed(again, shard="optimizer")
    loaded.load_state_dict(found)
    assert_same(train(again, loaded, first=3), plain.parameters())


def case_shards_load_where_they_were_saved_and_merge_elsewhere():
    model = tied()
    optimizer = distributed(model, shard="optimizer")
    train(model, optimizer)
    whole, shard = optimizer.state_dict(), optimizer.state_dict(sharded=True)
    shards = hvd.allgather_object(shard)
    merged = hvd.merge_sharded_states(shards)
    for number, values in whole["state"].items():
        for key, value in values.items():
            assert torch.equal(merged["state"][number][key], value)
    other = tied()
    other.load_state_dict(model.state_dict())
    resumed = distributed(other, shard="optimizer")
    resumed.load_state_dict(shard)
    assert_same(train(other, resumed, first=3), train(model, optimizer, first=3))
    with pytest.raises(ronde.InvalidArgumentError, match="the shard of rank 1 is missing"):
        hvd.merge_sharded_states(shards[:1] + shards[2:])
    given = shards[0] if hvd.rank() == 1 else shard
    with pytest.raises(ronde.MismatchError, match="the shard of rank 0 was given to rank 1"):
        resumed.load_state_dict(given)
    shard["ronde_shard"]["ranks"] = 7
    with pytest.raises(ronde.MismatchError, match="saved by 7 ranks"):
        resumed.load_state_dict(shard)


def case_a_new_optimizer_takes_over_the_sharded_state():
    plain, model = tied(), tied()
    dense = distributed(plain)
    train(plain, dense)
    inner = MAKERS["Adam"](groups_of(model))
    first = hvd.DistributedOptimizer(inner, model.named_parameters(), shard="optimizer")
    train(model, first)
    second = hvd.DistributedOptimizer(inner, model.named_parameters(), shard="gradients")
    assert_same(train(model, second, first=3), train(plain, dense, first=3))
    with pytest.raises(ronde.InvalidArgumentError, match="made another one"):
        first.step()


def case_options_of_a_sharded_optimizer_are_broadcast():
    model = tied()
    optimizer = distributed(model, shard="optimizer")
    train(model, optimizer)
    before = optimizer.state_dict()["state"]
    optimizer.param_groups[0]["lr"] = 0.5 + hvd.rank()
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert optimizer.param_groups[0]["lr"] == 1.5
    after = optimizer.state_dict()["state"]
    assert all(after[n][key].equal(v) for n in before for key, v in before[n].items())


def case_a_dense_optimizer_takes_over_the_whole_state():
    plain, model = tied(), tied()
    dense = distributed(plain)
    train(plain, dense)
    inner = MAKERS["Adam"](groups_of(model))
    train(model, hvd.DistributedOptimizer(inner, model.named_parameters(), shard="gradients"))
    second = hvd.DistributedOptimizer(inner, model.named_parameters())
    assert_same(train(model, second, first=3), train(plain, dense, first=3))
    third = hvd.DistributedOptimizer(inner, model.named_parameters(), shard="optimizer")
    third.load_state_dict(third.state_dict())  # torch puts another object in its place
    last = hvd.DistributedOptimizer(inner, model.named_parameters())
    assert_same(train(model, last, first=6), train(plain, dense, first=6))


def case_optimizers_that_live_on_some_ranks_alone_do_not_matter():
    model, other = tied(), tied()
    inner = MAKERS["Adam"](groups_of(other))
    kept = [
        distributed(model, shard="optimizer"),
        hvd.DistributedOptimizer(inner, other.named_parameters(), shard="optimizer"),
    ]
    train(model, kept[0])
    expected = train(other, kept[1])
    if hvd.rank():
        kept.clear()
        gc.collect()
    train(model, distributed(model, shard="optimizer"))
    again = hvd.DistributedOptimizer(inner, other.named_parameters(), shard="gradients")
    plain = tied()
    dense = distributed(plain)
    assert_same(train(plain, dense), expected)
    assert_same(train(other, again, first=3), train(plain, dense, first=3))


def case_a_call_that_is_refused_changes_nothing():
    plain, model = tied(), tied()
    dense = distributed(plain)
    inner = MAKERS["Adam"](groups_of(model))
    sharded = hvd.DistributedOptimizer(inner, model.named_parameters(), shard="optimizer")
    assert_same(train(model, sharded), train(plain, dense))
    for options in (
        {"shard": "optimizer", "weight": 1.0},
        {"shard": "gradients", "named_parameters": [("one", torch.ones(1))]},
        {"groups": [[model.scale], [model.scale]]},
    ):
        with pytest.raises(ronde.InvalidArgumentError):
            hvd.DistributedOptimizer(inner, **options)
        state, expected = sharded.state_dict()["state"], dense.state_dict()["state"]
        assert all(state[n][key].equal(v) for n in expected for key, v in expected[n].items())
    assert_same(train(model, sharded, first=3), train(plain, dense, first=3))


def case_a_model_is_collected_with_its_optimizer():
    for way, returns in ((None, False), ("optimizer", False), ("gradients", True)):
        model = tied()
        optimizer = distributed(model, shard=way, model=model if returns else None)
        train(model, optimizer, steps=2)
        parameters = [weakref.ref(p) for p in model.parameters()]
        del model, optimizer
        gc.collect()
        assert not any(one() is not None for one in parameters)
    hvd.barrier()


def case_an_optimizer_that_is_gone_leaves_a_model_as_it_was():
    results = []
    for way in (None, "gradients"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(9, 133), nn.Tanh(), nn.Linear(133, 17))
        inner = torch.optim.Adam(model.parameters(), lr=0.01)
        options = {"shard": way, "model": model} if way else {}
        optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options)
        for step in range(4):
            optimizer.zero_grad()
            model(torch.full((2, 9), 0.1 * step + hvd.rank())).pow(2).sum().backward()
            optimizer.step()
        saved = io.BytesIO()
        torch.save(model, saved)
        del inner, optimizer
        gc.collect()
        results.append([p.detach().clone() for p in model.parameters()])
        copied = torch.load(io.BytesIO(saved.getvalue()), weights_only=False)
        assert copied(torch.ones(9)).equal(model(torch.ones(9))) or way
    assert_same(results[1], results[0])
    assert not any(module._forward_pre_hooks for module in model.modules())


class Counting(torch.optim.SGD):
    """Counts its steps in a state of its own."""

    def step(self, closure=None):
        self.state["steps"] = {"count": self.state.get("steps", {"count": 0})["count"] + 1}
        return super().step(closure)


def case_state_of_frozen_parameters_and_other_keys_is_kept():
    def make(model):
        inner = Counting(model.parameters(), 1e-4, momentum=0.9)
        model.inner.requires_grad_(True)
        model(batch(0)).backward()
        inner.step()
        inner.zero_grad()
        model.inner.requires_grad_(False)
        return inner

    results = []
    for way in (None, "optimizer"):
        model = tied()
        options = {"shard": way, "shard_by": "elements"} if way else {}
        inner = make(model)
        hvd.broadcast_optimizer_state(inner, root_rank=0)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options)
        train(model, optimizer, first=1)
        whole = optimizer.state_dict()
        if way:
            shards = hvd.allgather_object(optimizer.state_dict(sharded=True))
            assert hvd.merge_sharded_states(shards)["state"].keys() == whole["state"].keys()
            optimizer.load_state_dict(optimizer.state_dict(sharded=True))
        assert whole["state"]["steps"] == {"count": 4}
        model.inner.requires_grad_(True)
        del whole["state"]["steps"]
        buffers = [whole["state"][n]["momentum_buffer"] for n in sorted(whole["state"])]
        results.append([b.clone() for b in buffers if b is not None])
        results[-1] += train(model, optimizer, first=4)
    assert_same(results[1], results[0])


def case_each_rank_has_its_part_of_the_state():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)])
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters()), model.named_parameters(), shard="optimizer"
    )
    model(torch.ones(2, 256)).sum().backward()
    optimizer.step()
    dense = 2 * 4 * sum(p.numel() for p in model.parameters())
    assert optimizer.memory_bytes()["state"] <= dense / hvd.size() + 8192
    assert all(isinstance(bucket, ShardBucket) for bucket in optimizer._buckets)


def case_parameters_that_get_other_data_keep_their_state():
    results = []
    for way in (None, "gradients"):
        model = tied()
        optimizer = distributed(model, shard=way)
        train(model, optimizer)
        for parameter in model.parameters():
            parameter.data = parameter.data.clone() * 2
        train(model, optimizer, first=3)
        results.append([p.detach().clone() for p in model.parameters()])
    assert_same(results[1], results[0])
