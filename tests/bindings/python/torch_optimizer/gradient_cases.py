"""Cases for gradients that are no ordinary ones: frozen, unused, added later, shared, changed."""

import pytest
import ronde
import ronde.torch as hvd
import torch
from torch import nn


def two_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def data():
    return torch.arange(6.0).reshape(2, 3) / 6 + hvd.rank()


def wrapped(model, **options):
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    return hvd.DistributedOptimizer(inner, model.named_parameters(), **options)


def assert_alike(tensors):
    for tensor in tensors:
        assert torch.equal(hvd.broadcast(tensor.detach(), 0), tensor)


def case_gradients_can_be_read_before_the_first_backward():
    model = two_layers()
    model[0].weight.requires_grad_(False)
    optimizer = wrapped(model)
    assert model[0].weight.grad is None
    for first in (True, False):
        assert torch.equal(model[1].weight.grad, torch.zeros(2, 4)) == first
        optimizer.zero_grad(set_to_none=False)
        model(data()).sum().backward()
        optimizer.step()


def case_parameters_that_cannot_travel_are_refused_at_once():
    with pytest.raises(ValueError, match="on meta, which no data plane of this build serves"):
        wrapped(nn.Linear(2, 2, device="meta"))


def case_frozen_parameters_stay_as_they_are_and_may_thaw():
    model = two_layers()
    before = model[0].weight.detach().clone()
    model[0].requires_grad_(False)
    optimizer = wrapped(model)
    for _ in range(2):
        optimizer.zero_grad()
        model(data()).pow(2).sum().backward()
        optimizer.step()
    assert torch.equal(model[0].weight, before)
    model[0].requires_grad_(True)
    for _ in range(2):
        optimizer.zero_grad()
        model(data()).pow(2).sum().backward()
        optimizer.step()
    assert not torch.equal(model[0].weight, before)
    assert_alike(model.parameters())


def case_parameters_frozen_in_between_are_left_alone():
    model = two_layers()
    optimizer = wrapped(model)
    for frozen in (0, 1, 0):
        model[frozen].requires_grad_(False)
        optimizer.zero_grad(set_to_none=True)
        before = model[frozen].weight.detach().clone()
        model(data()).pow(2).sum().backward()
        optimizer.step()
        assert torch.equal(model[frozen].weight, before)
        model[frozen].requires_grad_(True)
    assert_alike(model.parameters())


def case_parameter_groups_added_later_take_part():
    model, more = two_layers(), nn.Linear(2, 1)
    hvd.broadcast_parameters(more.state_dict(), 0)
    optimizer = wrapped(model)
    optimizer.add_param_group({"params": list(more.parameters())})
    for _ in range(2):
        optimizer.zero_grad()
        more(model(data())).pow(2).sum().backward()
        optimizer.step()
    assert_alike([*model.parameters(), *more.parameters()])


def case_a_parameter_in_two_places_gets_both_gradients():
    model = two_layers()
    model.append(nn.Linear(3, 4))
    model[2].weight = model[0].weight
    optimizer = wrapped(model)
    (model[0](data()) + model[2](data())).sum().backward()
    optimizer.synchronize()
    expected = 2 * hvd.allreduce(data().sum(0)).expand(4, 3)
    assert torch.allclose(model[0].weight.grad, expected)


def case_two_parameters_may_have_one_gradient():
    for groups in (0, 1):
        first, second = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([first, second], lr=1.0),
            [("first", first), ("second", second)],
            num_groups=groups,
        )
        first.grad = second.grad = torch.full((3,), float(hvd.rank()))
        optimizer.step()
        mean = (hvd.size() - 1) / 2
        assert torch.equal(first, torch.full((3,), -mean))
        assert torch.equal(second, first)


def case_one_gradient_for_two_parameters_cannot_be_summed():
    first, second = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    pairs = [("first", first), ("second", second)]
    inner = torch.optim.SGD([first, second], lr=1.0)
    optimizer = hvd.DistributedOptimizer(inner, pairs, op=hvd.Sum)
    first.grad = second.grad = torch.ones(3)
    with pytest.raises(ValueError, match="first and second are the same memory"):
        optimizer.step()


def case_changing_a_gradient_under_way_is_an_error():
    model = two_layers()
    optimizer = wrapped(model)
    model(data()).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
    with pytest.raises(ValueError, match="was changed while its average"):
        optimizer.step()
    optimizer.zero_grad()
    model(data()).sum().backward()
    optimizer.step()


def case_gradients_may_be_parts_of_one_tensor():
    first, second = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([first, second], lr=1.0), [("head", first), ("tail", second)]
    )
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        (torch.cat([first, second]) * (hvd.rank() + 1)).sum().backward()
        optimizer.step()
    mean = (hvd.size() + 1) / 2
    assert torch.allclose(first, torch.full((3,), -3 * mean))
    assert torch.allclose(second, torch.full((2,), -3 * mean))


def case_gradients_that_are_not_contiguous_are_averaged():
    torch.manual_seed(0)
    model = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
    optimizer = wrapped(model)
    images = torch.randn(2, 2, 5, 5).to(memory_format=torch.channels_last) + hvd.rank()
    local = torch.autograd.grad(model(images).sum(), list(model.parameters()))
    expected = [hvd.allreduce(grad) for grad in local]
    model(images).sum().backward()
    optimizer.synchronize()
    for parameter, mean in zip(model.parameters(), expected):
        assert torch.allclose(parameter.grad, mean, rtol=1e-4)


def convolutions(change_at, options):
    """Parameters after steps of a fused optimizer, which reads memory in order."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    unused = nn.Conv2d(3, 2, 2).to(memory_format=torch.channels_last)
    named = [*model.named_parameters(), *unused.named_parameters(prefix="unused")]
    optimizer = torch.optim.SGD([p for _, p in named], lr=0.1, weight_decay=0.1, fused=True)
    if options is not None:
        optimizer = hvd.DistributedOptimizer(optimizer, named, **options)
    for step in range(4):
        optimizer.zero_grad()
        if step == change_at:
            model.to(memory_format=torch.channels_last)
        images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(step))
        model(images.to(memory_format=torch.channels_last)).pow(2).mean().backward()
        if options is None:
            for parameter in unused.parameters():
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    return [parameter.detach() for _, parameter in named]


def case_gradients_keep_the_layout_of_parameters():
    for change_at in (0, 2):
        alone = convolutions(change_at, None)
        for options in ({}, {"flat_gradients": True}, {"shard": "optimizer"}, {"groups": 1}):
            for mine, expected in zip(convolutions(change_at, options), alone):
                assert torch.allclose(mine, expected, rtol=1e-5, atol=1e-6), (change_at, options)


def case_flat_gradients_of_other_layouts_are_an_error():
    for options in ({"flat_gradients": True}, {"shard": "gradients"}):
        model = nn.Conv2d(3, 4, 2)
        if hvd.rank() == 0:
            model.to(memory_format=torch.channels_last)
        optimizer = wrapped(model, **options)
        model(torch.ones(1, 3, 4, 4)).sum().backward()
        with pytest.raises(ronde.MismatchError, match="with strides"):
            optimizer.step()


def case_gradients_that_torch_negates_lazily_are_averaged_as_they_read():
    for options in ({}, {"groups": 1}, {"compression": hvd.Compression.fp16}):
        parameter = nn.Parameter(torch.zeros(3))
        inner = torch.optim.SGD([parameter], lr=1.0)
        optimizer = hvd.DistributedOptimizer(inner, [("weight", parameter)], **options)
        for _ in range(2):
            parameter.grad = torch._neg_view(torch.full((3,), 1.0 + hvd.rank()))
            optimizer.synchronize()
            assert parameter.grad.tolist() == [-(hvd.size() + 1) / 2] * 3


def case_a_second_step_without_backward_keeps_ranks_alike():
    model = two_layers()
    optimizer = wrapped(model)
    model(data()).sum().backward()
    optimizer.step()
    optimizer.step()
    assert_alike(model.parameters())


def case_a_step_without_any_gradient_does_not_hang():
    model = two_layers()
    optimizer = wrapped(model)
    optimizer.step()
    assert_alike(model.parameters())


def case_every_kind_of_sum_works_for_gradients():
    ranks = torch.arange(float(hvd.size()))
    for op, expected in ((hvd.Sum, ranks.sum()), (hvd.Max, ranks.max()), (hvd.Min, ranks.min())):
        weight = nn.Parameter(torch.zeros(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=op)
        (weight * hvd.rank()).sum().backward()
        optimizer.step()
        assert torch.equal(weight.detach(), -expected.expand(2))


def case_gans_turn_gradients_on_and_off():
    torch.manual_seed(0)
    maker, judge = nn.Linear(2, 3), nn.Linear(3, 1)
    optimizers = {model: wrapped(model) for model in (maker, judge)}
    for _ in range(2):
        for trained, other in ((judge, maker), (maker, judge)):
            trained.requires_grad_(True)
            other.requires_grad_(False)
            optimizers[trained].zero_grad()
            judge(maker(torch.ones(1, 2) * (hvd.rank() + 1))).sum().backward()
            optimizers[trained].step()
    for model in (maker, judge):
        assert_alike(model.parameters())


def case_many_small_gradients_travel_in_runs():
    torch.manual_seed(0)
    many = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(150)])
    table = nn.Embedding(4, 3, sparse=True)
    named = [*many.named_parameters(), ("table", table.weight)]
    inner = torch.optim.SGD([p for _, p in named], lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, named)
    assert len(optimizer._buckets) < 10
    large = [(f"large{i}", nn.Parameter(torch.ones(1 << 17))) for i in range(20)]
    assert (
        len(
            hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in large], lr=0.1), large)._buckets
        )
        == 10
    )
    for _ in range(2):
        optimizer.zero_grad()
        loss = sum((p * (i + hvd.rank())).sum() for i, p in enumerate(many))
        (loss + table(torch.tensor([hvd.rank() % 4])).sum()).backward()
        optimizer.step()
        for i, p in enumerate(many):
            assert torch.allclose(p.grad, torch.full((3,), i + (hvd.size() - 1) / 2))
        assert table.weight.grad.is_sparse
    assert_alike(many)
    assert_alike([table.weight])


def case_600_tiny_gradients_take_three_operations_not_one_each():
    many = [(f"tiny{i}", nn.Parameter(torch.ones(3))) for i in range(600)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in many], lr=0.1), many)
    assert [len(bucket.gradients) for bucket in optimizer._buckets] == [256, 256, 88]
    sum((p * hvd.rank()).sum() for _, p in many).backward()
    optimizer.step()
    for _, p in many:
        assert torch.allclose(p.grad, torch.full((3,), (hvd.size() - 1) / 2))
