"""Cases for gradients in flat buffers (flat_gradients=True)."""

import pytest
import ronde
import ronde.torch as hvd
import torch
from ronde.torch._optimizers.flat import FlatBucket
from torch import nn


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def data():
    return torch.arange(10.0).reshape(2, 5) / 10 + hvd.rank()


def flat(model, **options):
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return hvd.DistributedOptimizer(inner, model.named_parameters(), flat_gradients=True, **options)


def in_place(buckets):
    """True if every gradient is a view of its bucket's buffer."""
    return all(
        gradient.parameter.grad is view
        for bucket in buckets
        for gradient, view in zip(bucket.gradients, bucket.views)
    )


def trained(optimizer, model, steps=3, passes=1, **how):
    for _ in range(steps):
        optimizer.zero_grad(**how)
        for _ in range(passes):
            model(data()).pow(2).mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def case_flat_gradients_train_as_others_do():
    plain = layers()
    expected = trained(
        hvd.DistributedOptimizer(torch.optim.SGD(plain.parameters(), 0.1, 0.9)), plain
    )
    for how in ({}, {"set_to_none": True}, {"set_to_none": False}):
        for options in ({}, {"num_groups": 2}, {"compression": hvd.Compression.fp16}):
            model = layers()
            optimizer = flat(model, **options)
            flattened = [b for b in optimizer._buckets if isinstance(b, FlatBucket)]
            # Compressed gradients keep their own memory; biases are sent as they are.
            assert flattened
            assert "compression" in options or len(flattened) == len(optimizer._buckets)
            result = trained(optimizer, model, **how)
            assert in_place(flattened)
            tolerance = 1e-2 if "compression" in options else 1e-6
            for ours, theirs in zip(result, expected):
                assert torch.allclose(ours, theirs, atol=tolerance)


def case_flat_gradients_are_one_operation_per_bucket():
    model = layers()
    optimizer = flat(model)
    (bucket,) = optimizer._buckets
    assert bucket.flat.numel() >= sum(p.numel() for p in model.parameters())
    places = [p.grad.data_ptr() for p in model.parameters()]
    assert all(place % 64 == 0 for place in places)
    trained(optimizer, model)
    assert [p.grad.data_ptr() for p in model.parameters()] == places


def case_flat_gradients_add_up_over_several_passes():
    plain, model = layers(), layers()
    inner = torch.optim.SGD(plain.parameters(), 0.1, 0.9)
    reference = hvd.DistributedOptimizer(inner, backward_passes_per_step=2)
    expected = trained(reference, plain, passes=2)
    result = trained(flat(model, backward_passes_per_step=2), model, passes=2)
    for ours, theirs in zip(result, expected):
        assert torch.allclose(ours, theirs, atol=1e-6)


def case_gradients_that_something_else_put_there_move_to_the_flat_buffer():
    model = layers()
    optimizer = flat(model)
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        model(data()).sum().backward()
        assert in_place(optimizer._buckets)
        optimizer.step()
    model.zero_grad(set_to_none=True)
    model[0].weight.grad = torch.full((7, 5), float(hvd.rank()))
    optimizer.synchronize()
    assert in_place(optimizer._buckets)
    assert torch.equal(model[0].weight.grad, torch.full((7, 5), (hvd.size() - 1) / 2))
    assert not model[2].weight.grad.any()


def case_flat_gradients_of_unused_and_frozen_parameters():
    model = layers()
    model[0].bias.requires_grad_(False)
    optimizer = flat(model)
    model[2].requires_grad_(False)
    before = model[2].weight.detach().clone()
    trained(optimizer, model, set_to_none=True)
    assert model[0].bias.grad is None
    assert torch.equal(model[2].weight, before)
    model[2].requires_grad_(True)
    model[0].bias.requires_grad_(True)
    trained(optimizer, model)
    assert in_place(optimizer._buckets)
    for parameter in model.parameters():
        assert torch.equal(hvd.broadcast(parameter.detach(), 0), parameter)


def case_flat_gradients_changed_too_early_are_an_error():
    model = layers()
    optimizer = flat(model)
    model(data()).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
    with pytest.raises(ValueError, match="was changed while its average"):
        optimizer.step()
    optimizer.zero_grad()
    trained(optimizer, model)


def case_flat_gradients_cannot_be_sparse():
    table = nn.Embedding(4, 2, sparse=True)
    named = [("table", table.weight)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), 0.1), named, flat_gradients=True
    )
    with pytest.raises(ValueError, match="the gradient of table is sparse"):
        table(torch.tensor([1])).sum().backward()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(table.parameters(), 0.1), named, flat_gradients=True, sparse_as_dense=True
    )
    optimizer.zero_grad()
    table(torch.tensor([hvd.rank() % 4])).sum().backward()
    optimizer.step()
    assert table.weight.grad[0].tolist() == pytest.approx([1 / hvd.size()] * 2)


def case_flat_gradients_of_several_dtypes():
    torch.manual_seed(0)
    first, second = nn.Linear(3, 3), nn.Linear(3, 2).double()
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, 0.1), flat_gradients=True)
    assert {bucket.flat.dtype for bucket in optimizer._buckets} == {torch.float32, torch.float64}
    second(first(torch.ones(1, 3) * hvd.rank()).double()).sum().backward()
    optimizer.step()
    for parameter in parameters:
        assert torch.equal(hvd.broadcast(parameter.detach(), 0), parameter)


def case_flat_gradients_refuse_parameters_elsewhere():
    with pytest.raises(ronde.InvalidArgumentError, match="is on meta"):
        flat(layers().to("meta"))
