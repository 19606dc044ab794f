"""Cases for gradients through the collectives."""

import ronde.torch as hvd
import torch


def mine(*shape):
    """Small whole numbers that differ between ranks."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 5 + 1 + hvd.rank()).reshape(shape).to(torch.float32)


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


def case_gradients_flow_through_groups_scales_and_compression():
    size, rank = hvd.size(), hvd.rank()
    x, y = mine(3).requires_grad_(), mine(2).requires_grad_()
    first, second = hvd.grouped_allreduce([x, y], op=hvd.Sum, prescale_factor=0.5)
    (first.sum() + 2 * second.sum()).backward()
    assert torch.equal(x.grad, torch.full((3,), size / 2))
    assert torch.equal(y.grad, torch.full((2,), float(size)))
    x = mine(4).requires_grad_()
    hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16).sum().backward()
    assert torch.equal(x.grad, torch.full((4,), float(size)))
    x, y = mine(rank + 1).requires_grad_(), mine(1, 2).requires_grad_()
    long, short = hvd.grouped_allgather([x, y])
    (long.sum() * 3 + short.sum()).backward()
    assert torch.equal(x.grad, torch.full((rank + 1,), 3.0))
    assert torch.equal(y.grad, torch.ones(1, 2))
    x = mine(size, 2).requires_grad_()
    y = mine(size).requires_grad_()
    parts = hvd.grouped_reducescatter([x, y], op=hvd.Average)
    (parts[0].sum() + parts[1].sum()).backward()
    assert torch.equal(x.grad, torch.ones(size, 2))
    assert torch.equal(y.grad, torch.ones(size))


def case_uneven_alltoall_and_reducescatter_have_gradients():
    size, rank = hvd.size(), hvd.rank()
    splits = [(rank + r) % 3 for r in range(size)]
    x = torch.ones(sum(splits), 2, requires_grad=True)
    output, _ = hvd.alltoall(x, splits=splits)
    (output * (rank + 1)).sum().backward()
    expected = [torch.full((n, 2), float(r + 1)) for r, n in enumerate(splits)]
    assert torch.equal(x.grad, torch.cat(expected))
    x = mine(2 * size + 1, 3).requires_grad_()
    hvd.reducescatter(x, op=hvd.Average).sum().backward()
    assert torch.equal(x.grad, torch.ones(2 * size + 1, 3))


def case_second_derivatives_exist():
    x = mine(3).requires_grad_()
    cubes = hvd.allreduce(x**3, op=hvd.Sum).sum()
    (first,) = torch.autograd.grad(cubes, x, create_graph=True)
    first.sum().backward()
    assert torch.allclose(x.grad, 6 * x.detach() * hvd.size())


def case_gradients_of_complex_tensors_flow():
    x = torch.complex(mine(3), mine(3)).requires_grad_()
    hvd.allreduce(x, op=hvd.Sum).abs().pow(2).sum().backward()
    total = hvd.allreduce(x.detach(), op=hvd.Sum)
    assert torch.allclose(x.grad, 2 * total * hvd.size())


def case_asynchronous_results_carry_no_graph():
    x = mine(3).requires_grad_()
    for start in (hvd.allreduce_async, hvd.allgather_async, hvd.alltoall_async):
        given = x if start is not hvd.alltoall_async else mine(hvd.size()).requires_grad_()
        assert not hvd.synchronize(start(given)).requires_grad
