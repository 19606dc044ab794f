"""Cases for OneBitAdam and for compression under AMP."""

import copy

import pytest
import ronde.torch as hvd
import torch
from ronde import InvalidArgumentError
from torch import nn

C = hvd.Compression


def problem():
    """A model, alike on all ranks, all ranks' data, and which rows are this rank's."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 4))
    data = torch.randn(64 * hvd.size(), 20)
    target = data[:, :4].argmax(dim=1)
    return model, data, target, slice(64 * hvd.rank(), 64 * hvd.rank() + 64)


def loss_of(model, data, target):
    return nn.functional.cross_entropy(model(data), target)


def train(model, optimizer, data, target, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, data, target).backward()
        optimizer.step()


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def case_one_bit_adam_warms_up_as_adam():
    model, data, target, mine = problem()
    # Adam divides gradients by their own size: what fp32 rounds, which differs from processor to
    # processor, comes back as whole steps where a gradient is nearly zero.
    model, data = model.double(), data.double()
    reference = copy.deepcopy(model)
    optimizer = hvd.OneBitAdam(
        model.named_parameters(), lr=0.01, weight_decay=0.01, warmup_steps=20
    )
    train(model, optimizer, data[mine], target[mine], 20)
    adam = torch.optim.Adam(reference.parameters(), lr=0.01, weight_decay=0.01)
    train(reference, adam, data, target, 20)  # all ranks' rows: the mean of their gradients
    assert torch.allclose(flat(model), flat(reference), rtol=0, atol=1e-9)
    assert optimizer.frozen


def case_one_bit_adam_learns_with_a_frozen_variance_as_adam_does():
    model, data, target, mine = problem()
    reference = copy.deepcopy(model)
    optimizer = hvd.OneBitAdam(model.named_parameters(), lr=0.01, warmup_steps=30)
    train(model, optimizer, data[mine], target[mine], 150)
    adam = torch.optim.Adam(reference.parameters(), lr=0.01)
    train(reference, adam, data, target, 150)
    reached, wanted = (loss_of(m, data, target).item() for m in (model, reference))
    assert reached < wanted + 0.05, (reached, wanted)
    everyone = hvd.allgather(flat(model)[None], name="onebit.same")
    assert bool((everyone == everyone[0]).all())
    names = {name for _, name in C.state_dict()["residuals"]}
    assert "0.weight.momentum" in names
    assert "0.bias.momentum" not in names


def case_one_bit_adam_leaves_alone_what_no_gradient_ever_reached():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 64), nn.Flatten(), nn.Linear(64, 4))
    never = model[0].weight[32:].detach().clone()
    optimizer = hvd.OneBitAdam(model.named_parameters(), lr=0.01, warmup_steps=3)
    codes = torch.arange(32)[:, None]
    train(model, optimizer, codes, codes[:, 0] % 4, 20)
    assert torch.equal(model[0].weight[32:], never)


def case_one_bit_adam_skips_a_step_that_is_not_finite_on_all_ranks():
    model, data, target, mine = problem()
    optimizer = hvd.OneBitAdam(model.named_parameters(), lr=0.01, warmup_steps=2)
    train(model, optimizer, data[mine], target[mine], 5)
    before, state = flat(model), C.state_dict()["residuals"][0, "0.weight.momentum"][1].clone()
    optimizer.zero_grad()
    loss_of(model, data[mine], target[mine]).backward()
    if hvd.rank() == 0:
        model[0].weight.grad[1, 1] = float("inf")
    optimizer.step()
    assert torch.equal(flat(model), before)
    assert torch.equal(C.state_dict()["residuals"][0, "0.weight.momentum"][1], state)
    train(model, optimizer, data[mine], target[mine], 1)
    assert torch.isfinite(flat(model)).all()


def case_one_bit_adam_says_what_is_wrong():
    for options in ({"warmup_steps": 0}, {"lr": -1.0}, {"betas": (0.9, 1.0)}, {"eps": -1e-8}):
        with pytest.raises(InvalidArgumentError, match="allowed: from"):
            hvd.OneBitAdam([("w", nn.Parameter(torch.ones(2)))], **options)


def case_a_grad_scaler_overflow_leaves_weights_and_residuals_as_they_were():
    if not hasattr(torch.amp, "GradScaler"):
        return  # torch < 2.3 has it for CUDA alone
    model, data, target, mine = problem()
    named = [(f"amp.{name}", p) for name, p in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named, compression=C.int4
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=10_000)

    def step(factor=1.0):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, data[mine], target[mine]) * factor).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()

    for _ in range(3):
        step()
    before, kept = flat(model), C.state_dict()["residuals"]
    kept = {key: values.clone() for key, (_, values) in kept.items() if key[1].startswith("amp.")}
    assert kept
    step(float("inf") if hvd.rank() == 0 else 1.0)
    assert torch.equal(flat(model), before)
    after = C.state_dict()["residuals"]
    assert all(torch.equal(after[key][1], values) for key, values in kept.items())
    assert scaler.get_scale() == 512.0
    step()
    assert torch.isfinite(flat(model)).all()
    assert not torch.equal(flat(model), before)


def case_auto_is_dense_in_shared_memory_and_goes_by_name_too():
    whole = torch.randn((70, 70), generator=torch.Generator().manual_seed(hvd.rank()))
    exact = hvd.allreduce(whole, name="dense")
    forms = (C.auto, C.auto(), C.auto(accuracy="aggressive"), "auto", "auto:accuracy=lossless")
    for number, form in enumerate(forms):
        mean = hvd.allreduce(whole, name=f"auto.{number}", compression=form)
        assert torch.equal(mean, exact), form
    assert not any(name.startswith("auto.") for _, name in C.state_dict()["residuals"])
    assert torch.equal(hvd.allreduce(whole, name="by name", compression="none"), exact)
    rounded = hvd.allreduce(whole, name="by name", compression="int8:block=64")
    assert 0 < (rounded - exact).norm() < 0.03 * exact.norm()
    with pytest.raises(InvalidArgumentError, match="allowed: lossless, safe, aggressive"):
        hvd.allreduce(whole, compression=C.auto(accuracy="best"))
    with pytest.raises(InvalidArgumentError, match=r"'int9'.*allowed: fp16"):
        hvd.allreduce(whole, compression="int9")


def case_an_optimizer_takes_auto_by_name():
    model, data, target, mine = problem()
    named = [(f"named.{name}", p) for name, p in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named, compression="auto"
    )
    before = loss_of(model, data, target).item()
    train(model, optimizer, data[mine], target[mine], 10)
    assert loss_of(model, data, target).item() < before
