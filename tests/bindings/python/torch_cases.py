"""Cases for ronde.torch; run on several ranks by torch_test.py."""

import threading
import time
import warnings

import numpy as np
import pytest
import ronde
import ronde.torch as hvd
import torch
from torch import nn

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def mine(*shape, dtype=torch.float32, rank=None):
    """Small whole numbers that differ between ranks."""
    count = torch.Size(shape).numel()
    values = torch.arange(count) % 5 + 1 + (hvd.rank() if rank is None else rank)
    return values.reshape(shape).to(dtype)


def total(*shape, dtype=torch.float32):
    return sum(mine(*shape, dtype=dtype, rank=r) for r in range(hvd.size()))


def case_sums_are_right_in_every_type_sync_async_and_in_place():
    for dtype in FLOATING + WHOLE:
        for shape in [(), (0,), (17,), (3, 4)]:
            expected = total(*shape, dtype=dtype)
            tensor = mine(*shape, dtype=dtype)
            assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum), expected)
            assert torch.equal(hvd.synchronize(hvd.allreduce_async(tensor, op=hvd.Sum)), expected)
            assert torch.equal(tensor, mine(*shape, dtype=dtype)), "the input was changed"
            assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
            assert torch.equal(tensor, expected)
            handle = hvd.allreduce_async_(other := mine(*shape, dtype=dtype), op=hvd.Sum)
            assert hvd.synchronize(handle) is other
            assert torch.equal(other, expected)


def case_average_is_the_default_and_the_old_argument_works():
    tensor = torch.full((4,), float(hvd.rank()))
    mean = (hvd.size() - 1) / 2
    assert torch.allclose(hvd.allreduce(tensor), torch.full((4,), mean))
    assert torch.allclose(hvd.allreduce(tensor, average=True), torch.full((4,), mean))
    assert torch.allclose(hvd.allreduce(tensor, average=False), torch.full((4,), mean * hvd.size()))
    with pytest.raises(ValueError, match="not both"):
        hvd.allreduce(tensor, average=True, op=hvd.Sum)


def case_min_max_and_product():
    tensor = mine(6)
    ranks = [mine(6, rank=r) for r in range(hvd.size())]
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Min), ranks[0])
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Max), ranks[-1])
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Product), torch.stack(ranks).prod(dim=0))


def case_tensors_that_are_not_contiguous_are_reduced_in_place():
    tensor = mine(4, 6).t()
    assert not tensor.is_contiguous()
    hvd.allreduce_(tensor, op=hvd.Sum)
    assert torch.equal(tensor, total(4, 6).t())


def case_contiguous_tensors_are_used_without_a_copy():
    tensor = mine(8)
    address = tensor.data_ptr()
    assert hvd.allreduce_(tensor, op=hvd.Sum).data_ptr() == address


def case_fp16_compression_comes_back_in_the_tensors_type():
    result = hvd.allreduce(mine(9), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert result.dtype == torch.float32
    assert torch.equal(result, total(9))
    whole = hvd.allreduce(mine(9, dtype=torch.int32), op=hvd.Sum, compression=hvd.Compression.fp16)
    assert whole.dtype == torch.int32


def case_groups_are_reduced_together():
    tensors = [mine(3), mine(2, 2, dtype=torch.float64), mine(5)]
    for result, tensor in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum), tensors):
        assert torch.equal(result, total(*tensor.shape, dtype=tensor.dtype))
    handle = hvd.grouped_allreduce_async_(tensors, name="group", op=hvd.Sum)
    assert hvd.synchronize(handle)[1] is tensors[1]
    assert torch.equal(tensors[1], total(2, 2, dtype=torch.float64))


def case_allgather_joins_uneven_rows_of_every_type():
    for dtype in [*FLOATING, *WHOLE, torch.bool]:
        rows = torch.full((hvd.rank() + 1, 2), hvd.rank()).to(dtype)
        expected = torch.cat([torch.full((r + 1, 2), r).to(dtype) for r in range(hvd.size())])
        assert torch.equal(hvd.allgather(rows), expected)
    assert hvd.allgather(torch.empty(0, 3)).shape == (0, 3)


def case_broadcast_with_and_without_a_copy():
    for root in range(hvd.size()):
        tensor = mine(3, 2)
        result = hvd.broadcast(tensor, root)
        assert torch.equal(result, mine(3, 2, rank=root))
        assert torch.equal(tensor, mine(3, 2))
        assert hvd.broadcast_(tensor, root) is tensor
        assert torch.equal(tensor, mine(3, 2, rank=root))


def case_reducescatter_gives_the_first_ranks_one_row_more():
    rows = 2 * hvd.size() + 1
    result = hvd.reducescatter(mine(rows, 3), op=hvd.Sum)
    begin = 2 * hvd.rank() + min(hvd.rank(), 1)
    assert torch.equal(result, total(rows, 3)[begin : begin + len(result)])
    assert len(result) == (3 if hvd.rank() == 0 else 2)
    assert torch.allclose(hvd.reducescatter(mine(rows, 3)) * hvd.size(), result)
    with pytest.raises(ValueError):  # noqa: PT011
        hvd.reducescatter(torch.tensor(1.0))


def case_alltoall_returns_the_received_splits_when_given_splits():
    size, rank = hvd.size(), hvd.rank()
    splits = [(rank + r) % 3 for r in range(size)]
    rows = torch.cat([torch.full((n, 2), 10 * rank + r) for r, n in enumerate(splits)])
    for given in (splits, torch.tensor(splits)):
        output, received = hvd.alltoall(rows, splits=given)
        assert received.tolist() == [(r + rank) % 3 for r in range(size)]
        assert received.dtype == torch.int32
        expected = [torch.full((n, 2), 10 * r + rank) for r, n in enumerate(received.tolist())]
        assert torch.equal(output, torch.cat(expected))
    even = hvd.alltoall(torch.arange(size))
    assert even.tolist() == [rank] * size
    with pytest.raises(ValueError, match="whole numbers"):
        hvd.alltoall(rows, splits=[0.5] * size)


def case_gradients_flow_through_the_collectives():
    size, rank = hvd.size(), hvd.rank()
    x = mine(5).requires_grad_()
    hvd.allreduce(x, op=hvd.Sum).sum().backward()
    assert torch.equal(x.grad, torch.full((5,), float(size)))
    x = mine(5).requires_grad_()
    hvd.allreduce(x).sum().backward()
    assert torch.allclose(x.grad, torch.ones(5))
    x = mine(rank + 1, 2).requires_grad_()
    gathered = hvd.allgather(x)
    weights = torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)])
    (gathered * weights).sum().backward()
    assert torch.allclose(x.grad, torch.full((rank + 1, 2), float(rank)))
    x = mine(4).requires_grad_()
    hvd.broadcast(x, 1).sum().backward()
    assert torch.allclose(x.grad, torch.full((4,), 1.0 if rank == 1 else 0.0))
    x = mine(size).requires_grad_()
    (hvd.alltoall(x) * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [float(r + 1) for r in range(size)]
    x = mine(size, 2).requires_grad_()
    hvd.reducescatter(x, op=hvd.Sum).sum().backward()
    assert torch.allclose(x.grad, torch.full((size, 2), float(size)))


def case_wrong_tensors_are_value_errors():
    with pytest.raises(ValueError, match="complex64"):
        hvd.allreduce(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="dense"):
        hvd.allreduce_(torch.eye(3).to_sparse())
    with pytest.raises(ValueError, match="meta"):
        hvd.allreduce(torch.ones(2, device="meta"))
    with pytest.raises(ValueError, match=r"torch\.Tensor"):
        hvd.allreduce_([1.0])


def case_a_mismatch_is_a_horovod_internal_error():
    with pytest.raises(hvd.HorovodInternalError, match="mismatch"):
        hvd.allreduce(torch.ones(2 + hvd.rank()), name="mismatch")
    assert issubclass(hvd.HorovodInternalError, RuntimeError)
    hvd.barrier()


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


def case_two_optimizers_without_names_do_not_meet():
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
    wrapped.register_step_post_hook(lambda *_: calls.append(1))
    loss_of(model, data, target).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped.step()
        scheduler.step()
    assert calls == [1]
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


def case_process_sets_limit_who_takes_part():
    first = hvd.add_process_set(hvd.ProcessSet([0]))
    if first.included():
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=first).tolist() == [1.0, 1.0]
        assert hvd.allgather(torch.ones(1), process_set=first).shape == (1,)
    hvd.barrier()
    assert hvd.remove_process_set(first)


def case_what_was_built_can_be_asked():
    for ask in (hvd.mpi_built, hvd.gloo_built, hvd.cuda_built, hvd.rocm_built, hvd.mpi_enabled):
        assert ask() in (True, False)
    assert hvd.nccl_built() in (0, 1)
    assert hvd.is_homogeneous()
    assert hvd.is_initialized()
    assert hvd.local_size() == hvd.size()
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)


def case_other_threads_run_while_one_waits():
    # Rank 1 comes only once rank 0's second thread has called it: without the GIL, never.
    def call():
        time.sleep(0.2)
        ronde.send(np.ones(1), 1, tag=5)

    if hvd.rank() == 0:
        threading.Thread(target=call).start()
    elif hvd.rank() == 1:
        ronde.recv(np.ones(1), 0, tag=5)
    assert hvd.allreduce(torch.ones(1), name="late", op=hvd.Sum).item() == hvd.size()
