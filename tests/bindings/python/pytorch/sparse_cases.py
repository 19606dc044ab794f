"""Cases for sparse tensors and gradients."""

import pytest
import ronde.torch as hvd
import torch
from torch import nn


def rows(*numbers, width=3, height=6):
    """A sparse matrix with ones, times rank + 1, in these rows (again where one is named again)."""
    values = torch.full((len(numbers), width), float(hvd.rank() + 1))
    places = torch.tensor([numbers], dtype=torch.int64)
    return torch.sparse_coo_tensor(places, values, (height, width))


def check_sum(handle, dense):
    total = handle()
    assert total.is_sparse
    assert torch.equal(total.to_dense(), dense)
    assert hvd.synchronize(handle) is total
    assert hvd.poll(handle)


def case_sparse_tensors_add_up_where_they_meet():
    mine = rows(0, 2, 2, hvd.rank())
    expected = hvd.allreduce(mine.to_dense(), op=hvd.Sum)
    check_sum(hvd.sparse_allreduce_async(mine, name="sum", op=hvd.Sum), expected)
    average = hvd.sparse_allreduce_async(mine, "average", hvd.Average)
    assert torch.allclose(average().to_dense(), expected / hvd.size())
    empty = rows(1) if hvd.rank() == 0 else rows()
    check_sum(
        hvd.sparse_allreduce_async(empty, "empty", hvd.Sum), hvd.broadcast(rows(1).to_dense(), 0)
    )
    half = hvd.sparse_allreduce_async(mine, op=hvd.Sum, compression=hvd.Compression.fp16)()
    assert half.dtype == torch.float32
    assert torch.equal(half.to_dense(), expected)


def case_what_is_not_sparse_is_a_value_error_there():
    with pytest.raises(ValueError, match="sparse COO"):
        hvd.sparse_allreduce_async(torch.ones(2), "dense", hvd.Sum)
    with pytest.raises(ValueError, match="summed and averaged"):
        hvd.sparse_allreduce_async(rows(0), "max", hvd.Max)


def embedding_and_optimizer(sparse, **options):
    torch.manual_seed(0)
    model = nn.Embedding(10, 4, sparse=sparse)
    inner = torch.optim.SGD(model.parameters(), lr=0.5)
    return model, hvd.DistributedOptimizer(inner, model.named_parameters(), **options)


def trained(sparse, **options):
    """An embedding's weights after three steps, in which ranks look up different words."""
    model, optimizer = embedding_and_optimizer(sparse, **options)
    for step in range(3):
        optimizer.zero_grad()
        words = torch.tensor([step, hvd.rank() + step, 7])
        model(words).pow(2).sum().backward()
        optimizer.step()
    return model.weight.detach()


def case_sparse_gradients_train_as_dense_ones_do():
    dense = trained(False)
    assert torch.allclose(trained(True), dense, atol=1e-6)
    assert torch.allclose(trained(True, sparse_as_dense=True), dense, atol=1e-6)
    assert torch.allclose(trained(True, gradient_predivide_factor=2.0), dense, atol=1e-6)
    compressed = trained(True, compression=hvd.Compression.fp16)
    assert torch.allclose(compressed, dense, atol=1e-2)


def case_a_sparse_gradient_may_be_missing_on_some_ranks():
    model, optimizer = embedding_and_optimizer(True)
    for used_by in ([*range(hvd.size())], [0]):
        optimizer.zero_grad()
        if hvd.rank() in used_by:
            model(torch.tensor([1, 2])).sum().backward()
        optimizer.step()
        expected = 1.0 if len(used_by) > 1 else 1.0 / hvd.size()
        assert torch.allclose(model.weight.grad.to_dense()[1:3], torch.full((2, 4), expected))


def case_sparse_here_and_dense_there_is_an_error_and_not_a_hang():
    # At the first step a rank without a gradient cannot know that others have a sparse one.
    model, optimizer = embedding_and_optimizer(True)
    if hvd.rank() == 0:
        model(torch.tensor([1])).sum().backward()
    with pytest.raises(hvd.HorovodInternalError, match="weight"):
        optimizer.step()
    hvd.barrier()


def case_sparse_gradients_do_not_go_into_groups():
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Embedding(4, 2, sparse=True), nn.Linear(2, 1)])
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), num_groups=1
    )
    assert len(optimizer._buckets) == 1
    with pytest.raises(ValueError, match="groups do not support"):
        model[1](model[0](torch.tensor([1]))).sum().backward()


def case_sparse_adam_steps_with_sparse_as_dense():
    for _ in range(2):
        table = nn.Embedding(6, 3, sparse=True)
        hvd.broadcast_parameters(table.state_dict(), 0)
        before = table.weight.detach().clone()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SparseAdam(list(table.parameters()), lr=0.1), sparse_as_dense=True
        )
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([0, hvd.rank() + 1])).sum().backward()
            optimizer.step()
        changed = (table.weight != before).any(dim=1)
        assert changed.tolist() == [row <= hvd.size() for row in range(6)]
        assert torch.equal(hvd.broadcast(table.weight.detach(), 0), table.weight)


def case_sparse_sums_of_every_type_equal_the_dense_sum():
    torch.manual_seed(hvd.rank())
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32,
                  torch.int64, torch.uint8, torch.complex64):  # fmt: skip
        for dims, shape in ((1, (50, 3)), (2, (10, 5, 2)), (2, (7, 9))):
            count = 0 if hvd.rank() == 1 else 12
            places = torch.stack([torch.randint(extent, (count,)) for extent in shape[:dims]])
            values = torch.randint(0, 5, (count, *shape[dims:])).to(dtype)
            mine = torch.sparse_coo_tensor(places, values, shape)
            for op in (hvd.Sum, hvd.Average):
                total = hvd.sparse_allreduce_async(mine, f"{dtype}{shape}{op}", op)()
                dense = hvd.allreduce(mine.to_dense(), op=op)
                assert total.is_coalesced()
                assert total.dtype == dtype
                limit = 0 if op == hvd.Sum or not (dtype.is_floating_point) else 1e-2
                assert torch.allclose(total.to_dense(), dense, atol=limit), (dtype, shape, op)


def case_sparse_sums_are_the_same_for_skewed_indices():
    torch.manual_seed(hvd.rank())
    frequent = torch.rand(20_000).pow(-2).clamp(max=100_000).long() - 1
    values = torch.randint(-8, 8, (len(frequent), 4)).float()
    mine = torch.sparse_coo_tensor(frequent[None], values, (100_000, 4))
    total = hvd.sparse_allreduce_async(mine, "skewed", hvd.Sum)()
    assert torch.equal(total.to_dense(), hvd.allreduce(mine.to_dense(), op=hvd.Sum))
    assert torch.equal(hvd.broadcast(total.values(), 0), total.values())


def case_sparse_sums_of_a_process_set():
    ranks = [0, 2] if hvd.size() > 2 else [1]
    some = hvd.add_process_set(hvd.ProcessSet(ranks))
    if hvd.rank() in ranks:
        total = hvd.sparse_allreduce_async(rows(1, hvd.rank()), "some", hvd.Sum, process_set=some)
        expected = torch.zeros(6, 3)
        for rank in ranks:
            for row in (1, rank):
                expected[row] += rank + 1
        assert torch.equal(total().to_dense(), expected)
    hvd.barrier()
    hvd.remove_process_set(some)


def case_sparse_tensors_of_other_shapes_are_an_error_on_all_ranks():
    other = (hvd.rank() == hvd.size() - 1) * 1
    with pytest.raises(hvd.HorovodInternalError, match=r"\[6, 3\].*\[6, 4\]"):
        hvd.sparse_allreduce_async(rows(1, width=3 + other), "width", hvd.Sum)()
    with pytest.raises(hvd.HorovodInternalError, match=r"\[6, 3\].*\[7, 3\]"):
        hvd.sparse_allreduce_async(rows(1, height=6 + other), "height", hvd.Sum)()


def case_a_rank_that_has_joined_adds_no_rows():
    if hvd.rank() == 0:
        total = hvd.sparse_allreduce_async(rows(2), "of one", hvd.Sum)()
        assert torch.equal(total.to_dense(), rows(2).to_dense())
    hvd.join()


def case_sparse_gradients_have_weights():
    model, optimizer = embedding_and_optimizer(True)
    optimizer.set_weight(3.0 if hvd.rank() == 0 else 1.0)
    before = model.weight.detach().clone()
    (model(torch.tensor([hvd.rank()])).sum()).backward()
    optimizer.step()
    weights = [3.0] + [1.0] * (hvd.size() - 1)
    for row, weight in enumerate(weights):
        moved = (before - model.weight.detach())[row]
        assert torch.allclose(moved, torch.full((4,), 0.5 * weight / sum(weights)))
