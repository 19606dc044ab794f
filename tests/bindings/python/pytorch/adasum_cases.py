"""Cases for Adasum: allreduces and DistributedOptimizer."""

import pytest
import ronde.torch as hvd
import torch
from torch import nn

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def pair(a, b):
    """The formula of two tensors."""
    ab, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    of_a = 1 - ab / (2 * aa) if aa else 1
    of_b = 1 - ab / (2 * bb) if bb else 1
    return of_a * a + of_b * b


def adasum(tensors):
    """The formula of all ranks' tensors, neighbours first, by fp64."""
    tensors = [t.double() for t in tensors]
    while len(tensors) > 1:
        last = tensors[len(tensors) // 2 * 2 :]
        tensors = [pair(a, b) for a, b in zip(tensors[::2], tensors[1::2])] + last
    return tensors[0]


def drawn(rank, count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(100 * rank + count)
    return torch.randn(count, generator=generator).to(dtype)


def expected(count, dtype):
    return adasum([drawn(r, count, dtype) for r in range(hvd.size())])


def near(result, wanted):
    """Within 1 ulp; float64, whose reference is fp64 itself: 4 of the largest element's."""
    info = torch.finfo(result.dtype)
    exponent = wanted.abs().clamp(min=info.smallest_normal).log2().floor()
    ulp = 2.0**exponent * info.eps
    if result.dtype is torch.float64:
        ulp = 4 * wanted.abs().max() * info.eps
    error = (result.double() - wanted).abs() / ulp
    assert (error <= 1).all(), (result.dtype, error.max())


def case_adasum_is_the_formula_in_every_type_and_form():
    for dtype in FLOATING:
        for count in (1, 7, 3001):
            mine, wanted = drawn(hvd.rank(), count, dtype), expected(count, dtype)
            near(hvd.allreduce(mine, op=hvd.Adasum), wanted)
            near(hvd.synchronize(hvd.allreduce_async(mine, op=hvd.Adasum)), wanted)
            near(hvd.allreduce_(mine.clone(), op=hvd.Adasum), wanted)
    assert hvd.allreduce(torch.ones(0), op=hvd.Adasum).numel() == 0


def case_each_tensor_of_a_group_has_its_own_dot_products():
    counts = [5, 1, 300]
    mine = [drawn(hvd.rank(), count) for count in counts]
    for result, count in zip(hvd.grouped_allreduce(mine, op=hvd.Adasum), counts):
        near(result, expected(count, torch.float32))


def case_adasum_of_equal_tensors_is_the_tensor_and_of_orthogonal_ones_the_sum():
    equal = drawn(7, 100)
    assert torch.allclose(hvd.allreduce(equal, op=hvd.Adasum), equal, rtol=1e-6)
    unit = torch.zeros(hvd.size())
    unit[hvd.rank()] = 1
    assert hvd.allreduce(unit, op=hvd.Adasum).equal(torch.ones(hvd.size()))
    assert hvd.allreduce(torch.zeros(3), op=hvd.Adasum).equal(torch.zeros(3))


def case_factors_scale_the_result():
    mine, wanted = drawn(hvd.rank(), 50), expected(50, torch.float32)
    near(
        hvd.allreduce(mine, op=hvd.Adasum, prescale_factor=0.5, postscale_factor=4.0), 2.0 * wanted
    )


def case_adasum_refuses_integers_reducescatter_and_codecs():
    with pytest.raises(ValueError, match="float16, bfloat16, float32 and float64"):
        hvd.allreduce(torch.ones(3, dtype=torch.int32), op=hvd.Adasum)
    with pytest.raises(ValueError, match="adasum is not defined for reduce_scatter"):
        hvd.reducescatter(torch.ones(hvd.size()), op=hvd.Adasum)
    with pytest.raises(ValueError, match="compression with op adasum"):
        hvd.allreduce(torch.ones(3), op=hvd.Adasum, compression=hvd.Compression.int8)


def model_of(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batch_of(rank):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(12, 6, generator=generator)


def target_of(data):
    return data[:, :3].argmax(1)


def backward(model, rank):
    data = batch_of(rank)
    loss = nn.functional.cross_entropy(model(data), target_of(data))
    loss.backward()
    return loss.item()


def changes_of(rank, make):
    """The changes that a rank's first step makes to each parameter."""
    model, start = model_of(), model_of()
    optimizer = make(model.parameters())
    backward(model, rank)
    optimizer.step()
    with torch.no_grad():
        return [p - q for p, q in zip(model.parameters(), start.parameters())]


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def distributed(model, make, **options):
    return hvd.DistributedOptimizer(
        make(model.parameters()), model.named_parameters(), op=hvd.Adasum, **options
    )


def case_the_optimizer_combines_the_changes_of_parameters():
    for make in (sgd, adam):
        model = model_of()
        optimizer = distributed(model, make)
        backward(model, hvd.rank())
        optimizer.step()
        changes = zip(*(changes_of(r, make) for r in range(hvd.size())))
        for ours, start, of_ranks in zip(model.parameters(), model_of().parameters(), changes):
            assert torch.allclose(ours.double(), start.double() + adasum(of_ranks), atol=1e-6)


def case_training_by_adasum_lowers_the_loss_and_keeps_ranks_equal():
    for options in ({}, {"compression": hvd.Compression.fp16}, {"backward_passes_per_step": 2}):
        model = model_of()
        optimizer = distributed(model, sgd, **options)
        losses = []
        for _ in range(15):
            optimizer.zero_grad()
            for _ in range(options.get("backward_passes_per_step", 1)):
                losses.append(backward(model, hvd.rank()))
            optimizer.synchronize()
            optimizer.step()
        assert losses[-1] < 0.7 * losses[0], losses
        for parameter in model.parameters():
            assert hvd.allgather(parameter.detach()[None]).unique(dim=0).shape[0] == 1


def case_a_frozen_parameter_and_a_closure():
    model = model_of()
    model[0].weight.requires_grad_(False)
    optimizer = distributed(model, sgd)

    def closure():
        optimizer.zero_grad()
        return backward(model, hvd.rank())

    first = optimizer.step(closure)
    for _ in range(10):
        last = optimizer.step(closure)
    assert last < first
    assert model[0].weight.equal(model_of()[0].weight)


def case_the_optimizer_refuses_what_adasum_does_not_have():
    model = model_of()
    with pytest.raises(AssertionError, match="Skipping synchronization"):
        distributed(model, sgd).skip_synchronize()
    with pytest.raises(ValueError, match=r"allowed: Compression\.none"):
        distributed(model, sgd, compression=hvd.Compression.int8)
    with pytest.raises(ValueError, match="weight needs op=Average"):
        distributed(model, sgd, weight=2.0)
    with pytest.raises(ValueError, match="op other than Average"):
        distributed(model, sgd, gradient_predivide_factor=2.0)
    with pytest.raises(ValueError, match="flat_gradients"):
        distributed(model, sgd, flat_gradients=True)
    with pytest.raises(ValueError, match="is a DistributedOptimizer already"):
        hvd.DistributedOptimizer(distributed(model, sgd))
