"""Cases for whole models: SyncBatchNorm, mixed precision, compiled models, all optimizers."""

import inspect
import warnings

import pytest
import ronde.torch as hvd
import torch
from torch import nn


def shares(*shape, dtype=torch.float32):
    """(this rank's part of a batch, uneven; the whole batch, alike on all ranks)."""
    torch.manual_seed(3)
    counts = [2 + rank for rank in range(hvd.size())]
    whole = torch.randn(sum(counts), *shape, dtype=dtype) * 3 + 5
    return whole.split(counts)[hvd.rank()].clone(), whole


NORMS = [{}, {"affine": False}, {"track_running_stats": False, "momentum": None}]
if "bias" in inspect.signature(nn.BatchNorm1d).parameters:  # torch 2.1
    NORMS += [{"bias": False}, {"bias": False, "track_running_stats": False}]


def norms(channels, **options):
    """A SyncBatchNorm, and torch's own for the whole batch."""
    made = [hvd.SyncBatchNorm(channels, **options), nn.BatchNorm1d(channels, **options)]
    torch.manual_seed(4)
    if made[0].affine:
        with torch.no_grad():
            made[0].weight.uniform_(0.5, 2)
            if made[0].bias is not None:
                made[0].bias.normal_()
        made[1].load_state_dict(made[0].state_dict())
    return made


def check_norm(shape, dtype=torch.float64, tolerance=1e-10, **options):
    ours, theirs = (norm.to(dtype) for norm in norms(shape[0], **options))
    theirs._check_input_dim = lambda input: None
    for _ in range(2):
        mine, whole = shares(*shape, dtype=dtype)
        mine.requires_grad_()
        whole.requires_grad_()
        output = ours(mine)
        expected = theirs(whole)
        begin = sum(2 + rank for rank in range(hvd.rank()))
        part = slice(begin, begin + len(mine))
        assert torch.allclose(output, expected[part], atol=tolerance)
        factors = torch.arange(float(expected.numel()), dtype=dtype).sin().view_as(expected)
        (output * factors[part]).sum().backward()
        (expected * factors).sum().backward()
        assert torch.allclose(mine.grad, whole.grad[part], atol=tolerance)
    for (name, own), other in zip(ours.named_parameters(), theirs.parameters()):
        summed = hvd.allreduce(own.grad, op=hvd.Sum)
        assert torch.allclose(summed, other.grad, atol=tolerance * 10), name
    for (name, own), other in zip(ours.named_buffers(), theirs.buffers()):
        assert torch.allclose(own, other, atol=tolerance), name
    ours.eval(), theirs.eval()
    mine, whole = shares(*shape, dtype=dtype)
    assert torch.allclose(ours(mine), theirs(whole)[part], atol=tolerance)


def case_sync_batch_norm_equals_one_process_with_all_of_the_batch():
    check_norm((3,))
    check_norm((3, 4))
    check_norm((2, 3, 4))
    check_norm((2, 2, 2, 2), momentum=None)
    check_norm((3, 2), affine=False)
    check_norm((3, 2), track_running_stats=False)
    check_norm((3, 5), dtype=torch.float32, tolerance=1e-5)


def case_sync_batch_norm_has_every_option_of_torchs():
    for options in NORMS:
        check_norm((3, 2), **options)


def case_sync_batch_norm_takes_empty_batches_and_half_precision():
    for options in NORMS:
        norm = hvd.SyncBatchNorm(3, **options)
        mine = torch.randn(0 if hvd.rank() == 0 else 4, 3, requires_grad=True)
        output = norm(mine)
        assert output.shape == mine.shape
        output.sum().backward()
        for dtype in (torch.bfloat16, torch.float16):
            half = torch.randn(4, 3).to(dtype).requires_grad_()
            output = norm(half)
            output.sum().backward()
            assert output.dtype == half.grad.dtype == dtype


def case_sync_batch_norm_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"\(N, 3, \.\.\.\)"):
        hvd.SyncBatchNorm(3)(torch.ones(2, 4))
    rows = 1 if hvd.rank() == 0 else 0
    with pytest.raises(ValueError, match="more than one value"):
        hvd.SyncBatchNorm(3)(torch.ones(rows, 3))


def case_a_model_with_sync_batch_norm_trains_as_one_process_does():
    def model(norm):
        torch.manual_seed(0)
        made = nn.Sequential(nn.Linear(4, 6), norm, nn.ReLU(), nn.Linear(6, 1)).double()
        return made, torch.optim.SGD(made.parameters(), lr=0.1)

    torch.manual_seed(1)
    batch = torch.randn(6 * hvd.size(), 4, dtype=torch.float64)
    ours, inner = model(hvd.SyncBatchNorm(6))
    theirs, single = model(nn.BatchNorm1d(6))
    optimizer = hvd.DistributedOptimizer(inner, ours.named_parameters())
    for _ in range(4):
        optimizer.zero_grad()
        ours(batch.chunk(hvd.size())[hvd.rank()]).pow(2).mean().backward()
        optimizer.step()
        single.zero_grad()
        theirs(batch).pow(2).mean().backward()
        single.step()
    for own, other in zip(ours.parameters(), theirs.parameters()):
        assert torch.allclose(own, other, atol=1e-9)


def case_gradient_scaler_with_synchronize_and_unscale():
    if not hasattr(torch.amp, "GradScaler"):
        return  # torch < 2.3 has it for CUDA alone
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.ones(2, 3) * (hvd.rank() + 1)).pow(2).mean()
        if step == 1 and hvd.rank() == 0:
            loss = loss * float("inf")  # every rank must then skip this step
        before = model.weight.detach().clone()
        scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        assert torch.equal(before, model.weight) == (step == 1)
    assert torch.equal(hvd.broadcast(model.weight.detach(), 0), model.weight)


def case_compiled_models_train():
    if not hasattr(torch, "compile"):
        return  # torch < 2.0
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(3):
        optimizer.zero_grad()
        compiled(torch.ones(2, 4) * (hvd.rank() + 1)).pow(2).sum().backward()
        optimizer.step()
    for parameter in model.parameters():
        assert torch.equal(hvd.broadcast(parameter.detach(), 0), parameter)


def every_optimizer():
    """(class, parameters made for it) of each optimizer this torch has."""
    classes = {c for c in vars(torch.optim).values() if inspect.isclass(c)}
    classes.discard(torch.optim.Optimizer)
    return sorted(
        (c for c in classes if issubclass(c, torch.optim.Optimizer)), key=lambda c: c.__name__
    )


def gradients(parameters, kind):
    for parameter in parameters:
        grad = torch.full_like(parameter, 0.5)
        parameter.grad = grad.to_sparse() if kind.__name__ == "SparseAdam" else grad
    return torch.tensor(1.0)


def case_the_state_of_every_torch_optimizer_is_the_roots():
    kinds = every_optimizer()
    assert len(kinds) >= 11
    for kind in kinds:
        for steps in (0, 2):
            torch.manual_seed(0)
            weight = nn.Parameter(torch.randn(3, 4))
            optimizer = kind([weight], lr=0.01 * (hvd.rank() + 1))
            for _ in range(steps if hvd.rank() == 0 else 1):
                optimizer.step(lambda p=weight, k=kind: gradients([p], k))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            states = hvd.allgather_object(repr(optimizer.state_dict()))
            assert states == [states[0]] * hvd.size(), kind
            hvd.broadcast_parameters([weight], 0)
            optimizer.step(lambda p=weight, k=kind: gradients([p], k))
            assert torch.equal(hvd.broadcast(weight.detach(), 0), weight), kind


def case_the_state_of_a_wrapped_optimizer_is_the_roots():
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW(model.parameters(), lr=0.1 * (hvd.rank() + 1)), model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0, model=model)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.equal(hvd.broadcast(model.weight.detach(), 0), model.weight)


def case_uneven_batches_end_with_join():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters()
    )
    for epoch in range(2):
        batches = 1 + (hvd.rank() + epoch) % hvd.size()
        for _ in range(batches):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        last = hvd.join()
        assert last == hvd.broadcast_object(last, 0)
        assert (last + epoch) % hvd.size() == hvd.size() - 1, "the last is who had most batches"
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
    assert torch.equal(hvd.broadcast(model.weight.detach(), 0), model.weight)


def case_other_collectives_fail_while_a_rank_has_joined():
    if hvd.rank() == 0:
        hvd.join()
        return
    with pytest.raises(hvd.HorovodInternalError):
        hvd.allgather(torch.ones(2), name="after join")
    hvd.join()
