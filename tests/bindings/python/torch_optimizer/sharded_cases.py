"""Cases for DistributedOptimizer(shard=...), whose bits are those of the dense one."""

import gc

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde.torch._sharded.gradient import ShardedGradient
from sharded_models import MAKERS, WAYS, assert_alike, assert_same, batch, distributed, tied, train
from torch import nn

RANKS = (2, 4)
OPTIONS = ("--env", "RONDE_DETERMINISTIC=1")


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


def case_replicas_of_a_sharded_optimizer_are_compared():
    model = tied()
    optimizer = distributed(model, shard="optimizer")
    train(model, optimizer)
    assert optimizer.check_replicas()
    if hvd.rank() == 1:
        with torch.no_grad():
            model.inner.bias.add_(1)
    assert not optimizer.check_replicas()


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
