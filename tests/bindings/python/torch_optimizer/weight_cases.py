"""Cases for averages with weights."""

import math

import pytest
import ronde
import ronde.torch as hvd
import torch

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def values_of(rank, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(1000, generator=generator).to(dtype)


def expected(weights, dtype=torch.float32):
    """The mean by fp64."""
    total = sum(w * values_of(r, dtype).double() for r, w in enumerate(weights))
    return total / sum(weights)


def near(result, wanted, ulps=4):
    error = (result.double() - wanted).abs()
    allowed = ulps * torch.finfo(result.dtype).eps * (wanted.abs() + 0.5)
    assert (error <= allowed).all(), (error / allowed).max()


def weights_of(step):
    """One for each rank; they change at each step, and one is 0."""
    return [float((step + r) % hvd.size()) + (0.25 if r else 0) for r in range(hvd.size())]


def case_the_weighted_mean_is_exact_in_every_type_and_form():
    me = hvd.rank()
    for dtype in FLOATING:
        for step in range(3):
            weights = weights_of(step)
            if not sum(weights):
                continue
            mine, wanted = values_of(me, dtype), expected(weights, dtype)
            weight = weights[me]
            near(hvd.allreduce(mine, name="w", weight=weight), wanted)
            near(hvd.synchronize(hvd.allreduce_async(mine, weight=weight)), wanted)
            near(hvd.allreduce_(mine.clone(), weight=weight), wanted)
            for result in hvd.grouped_allreduce([mine, mine], weight=weight):
                near(result, wanted)
            for result in hvd.grouped_allreduce_([mine.clone(), mine.clone()], weight=weight):
                near(result, wanted)
            halved = hvd.allreduce(mine, prescale_factor=0.5, weight=weight)
            near(halved, wanted / 2)


def case_small_operations_of_different_weights_travel_together():
    me, handles = hvd.rank(), []
    for i in range(20):
        weights = [1.0 + i * r for r in range(hvd.size())]
        name = f"together.{i}"
        handles.append((hvd.allreduce_async(values_of(me), name=name, weight=weights[me]), weights))
    for handle, weights in handles:
        near(hvd.synchronize(handle), expected(weights))


def case_a_rank_of_weight_0_may_hold_nan():
    mine = torch.full((3,), float("nan") if hvd.rank() else 2.0)
    assert hvd.allreduce(mine, weight=float(hvd.rank() == 0)).tolist() == [2.0] * 3


def case_weights_that_are_not_allowed_are_an_error_on_every_rank():
    ones = torch.ones(2)
    for weight in (-1.0, float("nan"), float("inf")):
        mine = weight if hvd.rank() == 1 else 1.0
        for _ in range(2):
            with pytest.raises(ValueError, match=r"rank 1 submitted weight .*finite, 0 or more"):
                hvd.allreduce(ones, name="bad", weight=mine)
    with pytest.raises(ValueError, match="the weights of all ranks are 0"):
        hvd.allreduce(ones, name="bad", weight=0)
    with pytest.raises(ronde.MismatchError, match=r"a weight .* no weight|no weight .* a weight"):
        hvd.allreduce(ones, name="bad", weight=None if hvd.rank() else 1)
    with pytest.raises(ValueError, match="by average only, not for op sum"):
        hvd.allreduce(ones, op=hvd.Sum, weight=1)
    with pytest.raises(ValueError, match="floating types only, not for int64"):
        hvd.allreduce(torch.ones(2, dtype=torch.int64), weight=1)
    with pytest.raises(TypeError, match="weight must be a number or None, not '2'"):
        hvd.allreduce(ones, weight="2")
    assert hvd.allreduce(ones, name="bad", weight=3).tolist() == [1.0, 1.0]


def case_the_gradient_of_a_weighted_mean_is_this_ranks_share():
    weights = [1.0 + r for r in range(hvd.size())]
    mine = torch.ones(4, requires_grad=True)
    mean = hvd.allreduce(mine, weight=weights[hvd.rank()])
    (mean * (hvd.rank() + 1)).sum().backward()
    factor = sum(r + 1 for r in range(hvd.size())) * weights[hvd.rank()] / sum(weights)
    assert torch.allclose(mine.grad, torch.full((4,), factor))


def rows_of(step):
    """First row of each rank's batch: batches differ, change, and may be empty."""
    sizes = [(3 * r + 2 * step + 1) % 5 for r in range(hvd.size())]
    sizes[step % hvd.size()] += 4
    return torch.tensor([0, *sizes]).cumsum(0).tolist()


def trained(options, pieces=1):
    """This rank's model, and one trained by one process on all rows."""
    torch.manual_seed(0)
    models = [torch.nn.Linear(6, 3, dtype=torch.float64) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    data = torch.randn(200, 6, dtype=torch.float64)
    target = torch.randn(200, 3, dtype=torch.float64)
    own, single = (torch.optim.SGD(m.parameters(), lr=0.1) for m in models)
    own = hvd.DistributedOptimizer(own, models[0].named_parameters(), **options)
    for step in range(6):
        begins = rows_of(step)
        first, last = begins[hvd.rank()], begins[hvd.rank() + 1]
        own.zero_grad()
        own.set_weight(last - first)
        (models[0](data[first:last]) - target[first:last]).pow(2).mean().backward()
        own.step()
        single.zero_grad()
        (models[1](data[: begins[-1]]) - target[: begins[-1]]).pow(2).mean().backward()
        single.step()
    return models


def case_training_with_uneven_batches_equals_one_process_with_all_of_the_data():
    for options in ({}, {"flat_gradients": True}, {"num_groups": 1}, {"weight": 1.0}):
        ours, theirs = trained(options)
        for mine, wanted in zip(ours.parameters(), theirs.parameters()):
            assert torch.allclose(mine, wanted, rtol=1e-12, atol=1e-14)


def case_an_optimizers_weight_is_checked():
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    summed = hvd.DistributedOptimizer(
        torch.optim.SGD(other.parameters(), lr=0.1), other.named_parameters(), op=hvd.Sum
    )
    with pytest.raises(ValueError, match="a weight needs op=Average"):
        summed.set_weight(3)
    for weight in (-1, math.inf, math.nan, "3", None):
        with pytest.raises(ValueError, match=r"weight=.*; allowed: a finite number, 0 or more"):
            hvd.DistributedOptimizer(
                torch.optim.SGD(other.parameters(), lr=0.1), other.named_parameters()
            ).set_weight(weight)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), weight=2
    )
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(ValueError, match="before backward"):
        optimizer.set_weight(3)
    optimizer.step()
    optimizer.set_weight(3)
