"""Cases for DistributedOptimizer(shard=...), whose bits are those of the dense one."""

import copy
import gc
import io
import weakref

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde.torch._sharded.buckets import ShardBucket
from ronde.torch._sharded.kinds import costs, owners
from ronde.torch._sharded.placeholder import ShardedGradient
from torch import nn

RANKS = (2, 4)
OPTIONS = ("--env", "RONDE_DETERMINISTIC=1")

WAYS = ("optimizer", "gradients")


class Tied(nn.Module):
    """Odd shapes, tied weights, a scalar, an empty and a frozen parameter, channels last."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(37, 11)
        self.inner = nn.Linear(11, 301)
        self.back = nn.Linear(301, 11)
        self.frozen = nn.Linear(11, 11)
        self.frozen.requires_grad_(False)
        self.head = nn.Linear(11, 37, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.empty = nn.Parameter(torch.empty(0, 3))
        self.conv = nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)
        self.unused = nn.Linear(3, 3)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + self.frozen(self.back(torch.tanh(self.inner(x))))
        picture = x[..., :3].reshape(-1, 3, 1, 1).expand(-1, 3, 3, 3)
        return self.head(x * self.scale).sum() + self.conv(picture).pow(2).mean()


def tied():
    torch.manual_seed(0)
    return Tied()


def batch(step, part=0):
    generator = torch.Generator().manual_seed(100 * step + 10 * part + hvd.rank())
    return torch.randint(0, 37, (4, 6), generator=generator)


def groups_of(model):
    """Two groups with options of their own."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": matrices, "weight_decay": 0.01}, {"params": others, "lr": 0.002}]


MAKERS = {
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.01, momentum=0.9, nesterov=True),
    "Adam": lambda groups: torch.optim.Adam(groups, lr=0.01),
    "AMSGrad": lambda groups: torch.optim.Adam(groups, lr=0.01, amsgrad=True),
    "FusedAdam": lambda groups: torch.optim.Adam(groups, lr=0.01, fused=True),
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=0.01),
    "Adagrad": lambda groups: torch.optim.Adagrad(groups, lr=0.01),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, lr=0.01, momentum=0.5, centered=True),
    "Adamax": lambda groups: torch.optim.Adamax(groups, lr=0.01),
    "NAdam": lambda groups: torch.optim.NAdam(groups, lr=0.01),
    "RAdam": lambda groups: torch.optim.RAdam(groups, lr=0.01),
    "Adadelta": lambda groups: torch.optim.Adadelta(groups, lr=0.1),
    "ASGD": lambda groups: torch.optim.ASGD(groups, lr=0.01),
    "Rprop": lambda groups: torch.optim.Rprop(groups, lr=0.01),
}


def distributed(trained, make=MAKERS["Adam"], **options):
    return hvd.DistributedOptimizer(
        make(groups_of(trained)), named_parameters=trained.named_parameters(), **options
    )


def train(model, optimizer, steps=3, passes=1, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        for part in range(passes):
            model(batch(step, part)).backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def assert_same(found, expected):
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        assert ours.equal(theirs), (number, (ours - theirs).abs().max())


def assert_alike(tensors):
    for tensor in tensors:
        if tensor.numel():
            every = hvd.allgather(tensor.detach().reshape(1, -1).contiguous())
            assert (every == every[0]).all()


def case_every_elementwise_optimizer_has_the_bits_of_the_dense_one():
    for name, make in MAKERS.items():
        plain, model = tied(), tied()
        expected = train(plain, distributed(plain, make))
        found = train(model, distributed(model, make, shard="optimizer"))
        for (of, _), ours, theirs in zip(model.named_parameters(), found, expected):
            assert ours.equal(theirs), (name, of, (ours - theirs).abs().max())
        assert_alike(found)


def case_sharded_gradients_have_the_bits_of_the_dense_ones():
    for options in ({}, {"num_groups": 3}, {"op": hvd.Sum}, {"gradient_predivide_factor": 2.0}):
        plain, model = tied(), tied()
        expected = train(plain, distributed(plain, **options))
        assert_same(train(model, distributed(model, shard="gradients", **options)), expected)


def case_sharded_passes_accumulate_as_dense_ones():
    for way in WAYS:
        plain, model = tied(), tied()
        expected = train(plain, distributed(plain, backward_passes_per_step=2), passes=2)
        optimizer = distributed(model, shard=way, backward_passes_per_step=2)
        assert_same(train(model, optimizer, passes=2), expected)


def case_parameters_return_in_the_next_forward_pass():
    plain, model = tied(), tied()
    expected = train(plain, distributed(plain), steps=5)
    optimizer = distributed(model, shard="optimizer", model=model)
    train(model, optimizer, steps=4)
    assert optimizer._returning.overlaps
    train(model, optimizer, steps=1, first=4)
    optimizer.wait_for_parameters()
    assert_same(model.parameters(), expected)


def attention():
    """Modules whose children's parameters are used without their forward passes."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 40, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def case_parameters_that_are_used_without_their_module_are_waited_for():
    results = []
    for way in (None, "gradients"):
        model = attention()
        inner = torch.optim.Adam(model.parameters(), lr=0.01)
        optimizer = hvd.DistributedOptimizer(
            inner,
            model.named_parameters(),
            groups=[list(layer.parameters()) for layer in model.layers],
            shard=way,
            model=model if way else None,
        )
        for step in range(4):
            optimizer.zero_grad()
            x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(step + hvd.rank()))
            model(x).pow(2).sum().backward()
            optimizer.step()
            if step == 2:
                model.eval()
                results.append(model(x).detach())
                model.train()
        if way:
            assert {id(p) for p in optimizer._returning._hidden} == {
                id(p) for layer in model.layers for p in layer.self_attn.out_proj.parameters()
            }
            optimizer.wait_for_parameters()
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert_same(results[2:], results[:2])


def case_a_state_dict_waits_for_parameters_that_return():
    plain, model = tied(), tied()
    train(plain, distributed(plain), steps=3)
    train(model, distributed(model, shard="gradients", model=model), steps=3)
    for (name, theirs), ours in zip(plain.state_dict().items(), model.state_dict().values()):
        assert ours.equal(theirs), name


def case_full_gradients_are_freed_after_the_reduction():
    model = tied()
    optimizer = distributed(model, shard="gradients")
    optimizer.zero_grad()
    model(batch(0)).backward()
    optimizer.synchronize()
    gc.collect()
    alive = [p.grad for p in model.parameters() if p.requires_grad]
    assert all(isinstance(one, ShardedGradient) for one in alive)
    with pytest.raises(ronde.InvalidArgumentError, match="clip_grad_norm_"):
        alive[0].sum()
    optimizer.step()
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


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


def case_schedulers_and_later_groups_change_the_sharded_step():
    results = []
    for way in (None, "optimizer"):
        model, late = tied(), nn.Parameter(torch.ones(130))
        optimizer = distributed(model, shard=way)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        train(model, optimizer)
        scheduler.step()
        optimizer.add_param_group({"params": [late], "lr": 0.1})
        model.frozen.requires_grad_(True)
        model.inner.requires_grad_(False)
        for step in range(3, 6):
            optimizer.zero_grad()
            (model(batch(step)) + late.pow(2).sum() * (1 + hvd.rank())).backward()
            optimizer.step()
            scheduler.step()
        results.append([p.detach().clone() for p in [*model.parameters(), late]])
    assert_same(results[1], results[0])


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


def case_a_closure_sees_whole_parameters():
    results = []
    for way in (None, "optimizer"):
        model = tied()
        optimizer = distributed(model, MAKERS["SGD"], shard=way)
        for step in range(3):

            def closure(step=step, optimizer=optimizer, model=model):
                optimizer.zero_grad()
                loss = model(batch(step))
                loss.backward()
                return loss

            assert optimizer.step(closure) is not None
        results.append([p.detach().clone() for p in model.parameters()])
    assert_same(results[1], results[0])


def norm_of(model, optimizer):
    """The norm of the averaged gradients, of a dense optimizer."""
    optimizer.synchronize()
    return torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def case_clipping_uses_the_norm_of_all_shards():
    for clip in ("ours", "torch"):
        plain, model = tied(), tied()
        dense, sharded = distributed(plain), distributed(model, shard="optimizer")
        for step in range(3):
            plain(batch(step)).backward()
            model(batch(step)).backward()
            expected = norm_of(plain, dense)
            found = norm_of(model, sharded) if clip == "torch" else sharded.clip_grad_norm_(0.5)
            assert torch.allclose(found, expected, rtol=1e-5)
            with dense.skip_synchronize():
                dense.step()
            sharded.step()
            dense.zero_grad()
            sharded.zero_grad()
        for ours, theirs in zip(model.parameters(), plain.parameters()):
            assert torch.allclose(ours, theirs, atol=1e-5)


def case_a_grad_scaler_agrees_on_overflows():
    for way in WAYS:
        plain, model = tied(), tied()
        dense, sharded = distributed(plain), distributed(model, shard=way)
        scales = []
        for one, optimizer in ((plain, dense), (model, sharded)):
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for step in range(4):
                optimizer.zero_grad()
                loss = one(batch(step))
                if step == 1 and hvd.rank() == 0:
                    loss = loss * float("inf")
                scaler.scale(loss).backward()
                optimizer.synchronize()
                scaler.unscale_(optimizer)
                with optimizer.skip_synchronize():
                    scaler.step(optimizer)
                scaler.update()
            scales.append(scaler.get_scale())
        assert scales == [512.0, 512.0]
        assert_same(model.parameters(), plain.parameters())


def case_a_process_set_shards_among_its_ranks():
    even = hvd.add_process_set(list(range(0, hvd.size(), 2)))
    plain, model = tied(), tied()
    expected = train(plain, distributed(plain, process_set=even))
    assert_same(train(model, distributed(model, shard="optimizer", process_set=even)), expected)
    plain, model = tied(), tied()
    expected = train(plain, distributed(plain, process_set=even))
    options = {"shard": "gradients", "shard_by": "tensors", "process_set": even}
    assert_same(train(model, distributed(model, **options)), expected)
    hvd.remove_process_set(even)


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


def case_buckets_that_differ_between_ranks_are_told_on_all():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4 + (hvd.rank() == 1)))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(), shard="optimizer"
    )
    model(torch.ones(2, 4)).sum().backward()
    with pytest.raises(ronde.MismatchError, match=r"1\.weight"):
        optimizer.step()
    hvd.barrier()


def matrices():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 9), nn.Linear(9, 7))


def by_tensors(make, **options):
    """The parameters after three steps, dense and sharded."""
    results = []
    for way in (None, "optimizer", "gradients"):
        model = matrices()
        optimizer = hvd.DistributedOptimizer(
            make(model), model.named_parameters(), shard=way, **(options if way else {})
        )
        for step in range(3):
            optimizer.zero_grad()
            model(torch.full((3, 20), 0.1 * step + hvd.rank())).pow(2).sum().backward()
            optimizer.step()
        results.append([p.detach().clone() for p in model.parameters()])
        if way:
            wholes = {piece.parameter for piece in optimizer._pieces() if piece.whole}
            every = hvd.allgather_object(len(wholes))
            assert sum(every) == len(optimizer._parameters())
            assert len(optimizer.state_dict()["state"]) == sum(every)
    assert_same(results[1], results[0])
    assert_same(results[2], results[0])


def case_adafactor_is_sharded_by_whole_tensors():
    by_tensors(lambda model: torch.optim.Adafactor(model.parameters(), lr=0.01))


def case_muon_has_one_owner_for_each_matrix():
    def make(model):
        wide = [p for p in model.parameters() if p.dim() == 2]
        return torch.optim.Muon(wide, lr=0.01)

    by_tensors(lambda model: _only_matrices(model, make))


def _only_matrices(model, make):
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.dim() == 2)
    return make(model)


class Words(nn.Module):
    """A model with an embedding, hidden matrices and a head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(37, 16)
        self.hidden = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 16))
        self.head = nn.Linear(16, 37)

    def forward(self, tokens):
        return self.head(self.hidden(self.embedding(tokens))).pow(2).mean()


def words():
    torch.manual_seed(0)
    return Words()


def case_sharded_muon_updates_hidden_matrices_and_the_rest_with_adamw():
    plain, model = words(), words()
    hidden = [
        p for name, p in plain.named_parameters() if name.startswith("hidden") and p.dim() > 1
    ]
    rest = [p for name, p in plain.named_parameters() if not any(p is one for one in hidden)]
    pair = [torch.optim.Muon(hidden, lr=0.02), torch.optim.AdamW(rest, lr=0.003)]
    optimizer = hvd.ShardedMuon(
        model.named_parameters(), lr=0.02, adamw={"lr": 0.003}, shard="gradients"
    )
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)
    for step in range(4):
        plain.zero_grad()
        optimizer.zero_grad()
        plain(batch(step)).backward()
        model(batch(step)).backward()
        for parameter in plain.parameters():
            parameter.grad = hvd.allreduce(parameter.grad)
        for one in pair:
            one.step()
            one.param_groups[0]["lr"] *= 0.1 if step % 2 else 1
        optimizer.step()
        scheduler.step()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(ours, theirs, atol=1e-6)
    again = words()
    again.load_state_dict(model.state_dict())
    resumed = hvd.ShardedMuon(again.named_parameters(), lr=0.02, adamw={"lr": 0.003})
    resumed.load_state_dict(optimizer.state_dict())
    for one, other in ((model, optimizer), (again, resumed)):
        other.zero_grad()
        one(batch(9)).backward()
        other.step()
    assert_same(again.parameters(), list(model.parameters()))


def case_groups_added_to_sharded_muon_are_updated_by_adamw():
    model, late = words(), nn.Parameter(torch.ones(130))
    same = nn.Parameter(torch.ones(130))
    adamw = torch.optim.AdamW([same], lr=0.003)
    optimizer = hvd.ShardedMuon(model.named_parameters(), adamw={"lr": 0.003})
    optimizer.add_param_group({"params": [late]})
    for step in range(3):
        optimizer.zero_grad()
        adamw.zero_grad()
        (model(batch(step)) + late.pow(2).sum()).backward()
        same.pow(2).sum().backward()
        optimizer.step()
        adamw.step()
    assert torch.allclose(late, same, atol=1e-6)


def case_sharded_muon_says_what_it_cannot_orthogonalise():
    with pytest.raises(ronde.InvalidArgumentError, match=r"hidden\.0\.bias has 1 dimensions"):
        hvd.ShardedMuon(words().named_parameters(), is_hidden=lambda name, _: "hidden" in name)


def case_any_optimizer_can_be_sharded_by_tensors():
    by_tensors(lambda model: torch.optim.SGD(model.parameters(), 0.01, 0.9), shard_by="tensors")

    class Own(torch.optim.SGD):
        """An optimizer that Ronde does not know."""

    by_tensors(lambda model: Own(model.parameters(), 0.01, 0.9))


def case_owners_share_the_cost():
    tensors = [torch.empty(512, 2048, device="meta")] * 12 + [torch.empty(8, device="meta")] * 5
    work = costs(torch.optim.Muon([nn.Parameter(torch.ones(2, 2))]), tensors)
    chosen = owners(work, 4)
    assert [chosen[:12].count(place) for place in range(4)] == [3, 3, 3, 3]


def case_optimizers_that_cannot_be_sharded_are_refused_by_name():
    model = matrices()
    for optimizer, why in (
        (torch.optim.LBFGS(model.parameters()), "LBFGS cannot be sharded: its step combines"),
        (torch.optim.SparseAdam(model.parameters()), "SparseAdam cannot be sharded"),
    ):
        with pytest.raises(ronde.UnsupportedError, match=why):
            hvd.DistributedOptimizer(optimizer, shard="optimizer")
    adafactor = torch.optim.Adafactor(model.parameters())
    with pytest.raises(ronde.UnsupportedError, match="Adafactor needs whole tensors"):
        hvd.DistributedOptimizer(adafactor, shard="optimizer", shard_by="elements")
    for options, why in (
        ({"shard": "parameters"}, "shard='parameters'"),
        ({"shard": "optimizer", "shard_by": "rows"}, "shard_by='rows'"),
        ({"shard": "optimizer", "compression": hvd.Compression.int8}, "compression="),
        ({"shard": "optimizer", "flat_gradients": True}, "flat_gradients"),
        ({"shard": "optimizer", "weight": 2.0}, "weight"),
        ({"shard": "optimizer", "op": hvd.Adasum}, "op=Average or op=Sum"),
        ({"shard_by": "tensors"}, "shard_by and model are for shard"),
    ):
        with pytest.raises(ronde.InvalidArgumentError, match=why):
            hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), **options)


def case_replicas_of_a_sharded_optimizer_are_compared():
    model = tied()
    optimizer = distributed(model, shard="optimizer")
    train(model, optimizer)
    assert optimizer.check_replicas()
    if hvd.rank() == 1:
        with torch.no_grad():
            model.inner.bias.add_(1)
    assert not optimizer.check_replicas()


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


def sparse_step(**options):
    table = nn.Embedding(10, 4, sparse=True)
    inner = torch.optim.SGD(table.parameters(), 0.1)
    optimizer = hvd.DistributedOptimizer(
        inner, table.named_parameters(), shard="optimizer", **options
    )
    table(torch.tensor([1, 2])).sum().backward()
    optimizer.step()


def case_sparse_gradients_need_to_be_dense():
    sparse_step(sparse_as_dense=True)
    with pytest.raises(ronde.InvalidArgumentError, match="is sparse"):
        sparse_step()
    hvd.barrier()


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


def case_a_closure_may_change_the_parameters():
    results = []
    for way in (None, "optimizer"):
        model, late = tied(), nn.Parameter(torch.ones(130))
        optimizer = distributed(model, MAKERS["SGD"], shard=way)
        for step in range(3):

            def closure(step=step, optimizer=optimizer, model=model, late=late):
                optimizer.zero_grad()
                if step == 1:
                    optimizer.add_param_group({"params": [late], "lr": 0.1})
                    model.frozen.requires_grad_(True)
                    model.conv.to(memory_format=torch.contiguous_format)
                loss = model(batch(step)) + late.pow(2).sum() * (1 + hvd.rank())
                loss.backward()
                return loss

            optimizer.step(closure)
            assert len(optimizer.param_groups) == 2 + (step > 0)
        results.append([p.detach().clone() for p in [*model.parameters(), late]])
    assert_same(results[1], results[0])


def case_replicas_are_compared_after_parameters_have_returned():
    model = tied()
    optimizer = distributed(model, shard="gradients", model=model)
    train(model, optimizer, steps=4)
    assert optimizer._returning._in_flight
    assert optimizer.check_replicas()
    assert not optimizer._returning._in_flight


def case_data_that_is_given_after_backward_is_updated():
    results = []
    for way in (None, "optimizer"):
        model = tied()
        optimizer = distributed(model, shard=way)
        for step in range(3):
            optimizer.zero_grad()
            model(batch(step)).backward()
            model.inner.weight.data = model.inner.weight.data.clone() * 2
            optimizer.step()
        results.append([p.detach().clone() for p in model.parameters()])
    assert_same(results[1], results[0])
    optimizer.zero_grad()
    model(batch(3)).backward()
    model.inner.bias.data = torch.ones(2)
    with pytest.raises(ronde.InvalidArgumentError, match=r"inner\.bias had the shape \[301\]"):
        optimizer.step()


def case_gradients_are_not_reduced_twice():
    plain, model = tied(), tied()
    dense, optimizer = distributed(plain), distributed(model, shard="optimizer")
    train(plain, dense, steps=1)
    optimizer.zero_grad()
    model(batch(0)).backward()
    optimizer.synchronize()
    optimizer.synchronize()
    optimizer.step()
    assert_same(model.parameters(), list(plain.parameters()))
    for again in (optimizer.step, optimizer.synchronize, lambda: optimizer.clip_grad_norm_(1.0)):
        with pytest.raises(ronde.InvalidArgumentError, match="was reduced already; zero_grad"):
            again()
    for one in (dense, optimizer):
        one.zero_grad()
    plain.scale.square().backward()  # all others have zeros
    model.scale.square().backward()
    dense.step()
    optimizer.step()
    assert_same(model.parameters(), list(plain.parameters()))


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


def case_complex_parameters_are_clipped():
    results = []
    for way in (None, "gradients"):
        torch.manual_seed(0)
        weights = nn.Parameter(torch.randn(131, dtype=torch.complex64))
        inner = torch.optim.Adam([weights], lr=0.01)
        optimizer = hvd.DistributedOptimizer(inner, [("weights", weights)], shard=way)
        for step in range(3):
            optimizer.zero_grad()
            (weights * (step + 1 + 1j * hvd.rank())).abs().pow(2).sum().backward()
            optimizer.synchronize()
            norm = torch.nn.utils.clip_grad_norm_([weights], 0.5)
            with optimizer.skip_synchronize():
                optimizer.step()
        results.append((norm, weights.detach().clone()))
    assert torch.allclose(results[0][0], results[1][0])
    assert torch.allclose(results[0][1], results[1][1], atol=1e-6)


def case_modules_that_are_lazy_are_sharded_once_they_are_made():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(9, 133), nn.LazyLinear(5))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(), shard="optimizer"
    )
    for _ in range(2):
        optimizer.zero_grad()
        torch.manual_seed(1)
        model(torch.ones(2, 9)).sum().backward()
        optimizer.step()
    assert_alike(model.parameters())
    assert len(optimizer._layout) == 4
