"""Cases for DistributedOptimizer and the broadcasts."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import ronde.torch as hvd
import torch
from torch import nn


def model_and_data():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    data = torch.randn(12 * hvd.size(), 6)
    target = torch.randint(0, 3, (12 * hvd.size(),))
    return model, data, target


def loss_of(model, data, target):
    return nn.functional.cross_entropy(model(data), target)


def my_rows(tensor):
    return tensor.chunk(hvd.size())[hvd.rank()]


def assert_like_one_process(make_optimizer, steps=5, tolerance=1e-5, **options):
    """Training by shares must give what one process gives that trains on all of the data."""
    model, data, target = model_and_data()
    reference, _, _ = model_and_data()
    optimizer = hvd.DistributedOptimizer(
        make_optimizer(model.parameters()), model.named_parameters(), **options
    )
    single = make_optimizer(reference.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, my_rows(data), my_rows(target)).backward()
        optimizer.step()
        single.zero_grad()
        loss_of(reference, data, target).backward()
        single.step()
    for ours, theirs in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(ours, theirs, atol=tolerance), (ours - theirs).abs().max()


def case_training_equals_one_process_with_all_of_the_data():
    assert_like_one_process(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    assert_like_one_process(lambda p: torch.optim.Adam(p, lr=0.01))


def case_a_new_optimizer_at_once_after_one_that_failed_between_backward_and_step():
    model, data, target = model_and_data()
    reference, _, _ = model_and_data()
    for _ in range(4):
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
        )
        optimizer.zero_grad(set_to_none=False)
        loss_of(model, my_rows(data), my_rows(target)).backward()
    optimizer.step()
    loss_of(reference, data, target).backward()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    for ours, theirs in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(ours, theirs, atol=1e-6), (ours - theirs).abs().max()


def case_training_with_groups_predivision_and_compression():
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)

    assert_like_one_process(sgd, num_groups=2, gradient_predivide_factor=2.0)
    assert_like_one_process(sgd, gradient_predivide_factor=float(hvd.size()))
    assert_like_one_process(sgd, compression=hvd.Compression.fp16, tolerance=5e-3)
    model, _, _ = model_and_data()
    optimizer = hvd.DistributedOptimizer(
        sgd(model.parameters()), groups=[list(model[0].parameters())]
    )
    assert len(optimizer._buckets) == 3


def case_gradients_leave_during_backward():
    model, data, target = model_and_data()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    submitted = []
    inner = optimizer._submit
    optimizer._submit = lambda bucket: (submitted.append(bucket.name), inner(bucket))
    handle = model[0].weight.register_hook(lambda gradient: submitted.append("first layer"))
    loss_of(model, my_rows(data), my_rows(target)).backward()
    assert submitted.index("2.weight") < submitted.index("first layer")
    assert set(submitted) >= {"0.weight", "0.bias", "2.weight", "2.bias"}
    handle.remove()
    optimizer.step()


def case_several_backward_passes_make_one_step():
    model, data, target = model_and_data()
    reference, _, _ = model_and_data()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        model.named_parameters(),
        backward_passes_per_step=2,
    )
    for part_x, part_y in zip(my_rows(data).chunk(2), my_rows(target).chunk(2)):
        (loss_of(model, part_x, part_y) / 2).backward()
    optimizer.step()
    single = torch.optim.SGD(reference.parameters(), lr=0.1)
    loss_of(reference, data, target).backward()
    single.step()
    for ours, theirs in zip(model.parameters(), reference.parameters()):
        assert torch.allclose(ours, theirs, atol=1e-6)
    optimizer.set_backward_passes_per_step(1)
    loss_of(model, data, target).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, data, target).backward()
    with pytest.raises(ValueError, match="was changed"):
        optimizer.synchronize()


def case_synchronize_then_clip_then_step():
    model, data, target = model_and_data()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    loss_of(model, my_rows(data), my_rows(target)).backward()
    optimizer.synchronize()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    assert hvd.allgather_object(norm.item()) == [norm.item()] * hvd.size()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss_of(model, my_rows(data), my_rows(target)).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"^optimizer.step\(\) called without"):
        optimizer.step()


def case_zero_grad_between_backward_and_step_is_an_error():
    model, data, target = model_and_data()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )
    loss_of(model, data, target).backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def case_parameters_unused_on_one_rank_still_agree():
    torch.manual_seed(0)
    used, sometimes = nn.Linear(2, 2), nn.Linear(2, 2)
    named = [*nn.ModuleDict({"used": used, "sometimes": sometimes}).named_parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=0.1), named)
    output = used(torch.ones(1, 2))
    (sometimes(output) if hvd.rank() == 0 else output).sum().backward()
    optimizer.step()
    for _, parameter in named:
        assert torch.equal(hvd.broadcast(parameter.detach(), 0), parameter)


def case_closures_see_averaged_gradients():
    model, data, target = model_and_data()
    reference, _, _ = model_and_data()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.LBFGS(model.parameters(), max_iter=4), model.named_parameters()
    )

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model, my_rows(data), my_rows(target))
        loss.backward()
        return hvd.allreduce(loss.detach(), name="closure")

    optimizer.step(closure)
    for parameter in model.parameters():
        assert torch.equal(hvd.broadcast(parameter.detach(), 0), parameter)
    changed = zip(model.parameters(), reference.parameters())
    assert not all(torch.equal(a, b) for a, b in changed)


def case_two_optimizers_without_names_do_not_match():
    models = [nn.Linear(3, 3), nn.Linear(3, 3)]
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(m.parameters(), lr=0.1)) for m in models]
    models[1](models[0](torch.ones(1, 3))).sum().backward()
    for optimizer in optimizers:
        optimizer.step()


def case_wrong_names_are_value_errors():
    model, _, _ = model_and_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    parameters = list(model.named_parameters())
    with pytest.raises(ValueError, match="Found duplicates: twice"):
        hvd.DistributedOptimizer(optimizer, [("twice", p) for _, p in parameters])
    with pytest.raises(ValueError, match="were not named"):
        hvd.DistributedOptimizer(optimizer, parameters[:1])
    with pytest.raises(ValueError, match="sequence of tuples"):
        hvd.DistributedOptimizer(optimizer, model.parameters())
    with pytest.raises(ValueError, match="predivide"):
        hvd.DistributedOptimizer(optimizer, parameters, op=hvd.Sum, gradient_predivide_factor=2.0)


def case_the_wrapped_optimizer_is_still_one_of_its_class():
    model, data, target = model_and_data()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    wrapped = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    assert isinstance(wrapped, torch.optim.Adam)
    assert wrapped._parameter_names[model[0].weight] == "0.weight"
    calls = []
    if hasattr(wrapped, "register_step_post_hook"):  # torch >= 2.0
        wrapped.register_step_post_hook(lambda *_: calls.append(1))
    loss_of(model, data, target).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped.step()
        scheduler.step()
    assert calls == ([1] if hasattr(wrapped, "register_step_post_hook") else [])
    assert wrapped.param_groups[0]["lr"] == pytest.approx(0.05)
    wrapped.load_state_dict(wrapped.state_dict())


def case_parameters_are_the_roots_after_broadcast():
    for give in (
        lambda m: m.state_dict(),
        lambda m: m.named_parameters(),
        lambda m: list(m.parameters()),
    ):
        torch.manual_seed(hvd.rank())
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        hvd.broadcast_parameters(give(model), root_rank=1)
        torch.manual_seed(1)
        expected = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        for ours, theirs in zip(model.parameters(), expected.parameters()):
            assert torch.equal(ours, theirs)
    with pytest.raises(ValueError, match="expected a state_dict"):
        hvd.broadcast_parameters(torch.ones(1), 0)


def case_threads_broadcast_parameters_one_after_the_other():
    models = [nn.Linear(2, 2) for _ in range(4)]
    for model in models:
        nn.init.constant_(model.weight, hvd.rank())
    together = threading.Barrier(len(models))

    def give(model):
        together.wait()
        hvd.broadcast_parameters(model.state_dict(), root_rank=1)

    with ThreadPoolExecutor(len(models)) as threads:
        for broadcast in [threads.submit(give, model) for model in models]:
            broadcast.result()
    assert all(model.weight.eq(1).all() for model in models)


def case_optimizer_state_is_the_roots_after_broadcast():
    kinds = (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad)
    for kind in kinds:
        for steps in (0, 2):
            model, data, target = model_and_data()
            optimizer = kind(model.parameters(), lr=0.1 * (hvd.rank() + 1))
            for _ in range(steps if hvd.rank() == 0 else 0):
                loss_of(model, data, target).backward()
                optimizer.step()
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
            states = hvd.allgather_object(optimizer.state_dict())
            flat = [repr(state) for state in states]
            assert flat == [flat[0]] * hvd.size()


def case_objects_travel():
    assert hvd.broadcast_object({"epoch": 3 if hvd.rank() == 0 else None}, 0) == {"epoch": 3}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


def case_join_lets_ranks_run_out_of_data():
    for step in range(hvd.rank() + 1):
        result = hvd.allreduce(torch.ones(4), name=f"step{step}", op=hvd.Sum)
        assert result.tolist() == [float(hvd.size() - step)] * 4
    assert len(set(hvd.allgather_object(hvd.join()))) == 1
