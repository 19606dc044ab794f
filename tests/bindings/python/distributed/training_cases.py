"""What stands on torch.distributed, over the backend `ronde`: DDP, FSDP, ZeRO, DTensor and more.

Each training is compared with the same one in a single process. Cases run in order, as one job.
"""

import copy
import datetime
import gc
import time
import weakref

import pytest
import ronde
import ronde.torch.distributed
import torch
import torch.distributed as dist
from ronde.torch.compression import Compression
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ROWS = 4  # of each rank


def here():
    return dist.get_rank(), dist.get_world_size()


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)
    )


def batch(step):
    """Inputs and targets of all ranks, rank by rank."""
    generator = torch.Generator().manual_seed(step)
    rows = ROWS * dist.get_world_size()
    return torch.randn(rows, 6, generator=generator), torch.randn(rows, 3, generator=generator)


def mine(tensor):
    return tensor[ROWS * dist.get_rank() :][:ROWS]


def train(model, steps=3, optimizer=None, whole=False):
    """A few steps on this rank's rows, or on all of them."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        inputs, targets = batch(step)
        if not whole:
            inputs, targets = mine(inputs), mine(targets)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return model


def expected(steps=3):
    return train(make_model(), steps, whole=True).state_dict()


def check(state, wanted=None, tolerance=1e-5):
    wanted = wanted or expected()
    assert state.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(state[name], tensor, rtol=tolerance, atol=tolerance)


def case_training_starts():
    dist.init_process_group("ronde", timeout=datetime.timedelta(seconds=60))


def case_ddp_trains_as_one_process_does():
    check(train(DistributedDataParallel(make_model())).module.state_dict())
    many_buckets = DistributedDataParallel(
        make_model(), bucket_cap_mb=0.001, gradient_as_bucket_view=True
    )
    check(train(many_buckets).module.state_dict())


def case_ddp_starts_from_rank_0():
    model = make_model()
    if dist.get_rank() != 0:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    check(DistributedDataParallel(model).module.state_dict(), make_model().state_dict())


def case_a_ddp_model_that_was_converted_after_it_was_wrapped_is_refused():
    """Torch forgets DDP's hooks then, and each rank would train a model of its own."""
    inputs, _ = batch(0)
    for convert in (nn.Module.double, nn.Module.bfloat16, lambda m: m.half().float()):
        plain = make_model()
        model = DistributedDataParallel(plain)
        model(mine(inputs)).sum().backward()
        convert(plain)
        dtype = next(plain.parameters()).dtype
        with torch.no_grad():
            model(mine(inputs).to(dtype))  # only training is wrong
        with pytest.raises(ronde.InvalidArgumentError, match=r"gradient of .* convert it"):
            model(mine(inputs).to(dtype))
    train(DistributedDataParallel(make_model().double().float()))


def case_a_ddp_model_that_was_changed_in_other_ways_is_averaged():
    model = DistributedDataParallel(make_model())
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    list(model.parameters())[-1].register_hook(lambda gradient: gradient)
    check(train(model).module.state_dict())


class Branching(nn.Module):
    """Rank 0 leaves one part unused."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.always = nn.Linear(6, 3)
        self.sometimes = nn.Linear(6, 3)

    def forward(self, inputs):
        result = self.always(inputs)
        return result if dist.get_rank() == 0 else result + self.sometimes(inputs)


def case_ddp_with_unused_parameters():
    _, size = here()
    model = DistributedDataParallel(Branching(), find_unused_parameters=True)
    inputs, _ = batch(0)
    for _ in range(2):
        model.zero_grad()
        model(mine(inputs)).sum().backward()
    used = [inputs[ROWS * r :][:ROWS] for r in range(1, size)]
    wanted = torch.cat(used).sum(0).expand(3, 6) / size
    torch.testing.assert_close(model.module.sometimes.weight.grad, wanted)


def case_ddp_with_a_static_graph():
    check(train(DistributedDataParallel(make_model(), static_graph=True)).module.state_dict())


def case_futures_keep_no_tensor_once_they_are_complete():
    """A work and its future must not keep each other until garbage is collected."""
    tensor = torch.ones(3)
    watched = weakref.ref(tensor)
    work = dist.all_reduce(tensor, async_op=True)
    assert work.get_future().wait()[0] is not None
    assert work.get_future().done()  # asked for again
    gc.disable()
    try:
        del work, tensor
        deadline = time.monotonic() + 20
        while watched() is not None and time.monotonic() < deadline:
            time.sleep(0.01)  # the group's thread may be at it
        assert watched() is None
    finally:
        gc.enable()


def case_a_future_of_backward_is_completed_though_nobody_waits_for_it():
    """An error that ends backward must not leave futures behind."""
    started = []

    def start(gradient):
        started.append(dist.all_reduce(gradient.clone(), async_op=True).get_future())
        raise ValueError("in backward")

    inputs = torch.ones(3, requires_grad=True)
    inputs.register_hook(start)
    with pytest.raises(ValueError, match="in backward"):
        (inputs * 2).sum().backward()
    deadline = time.monotonic() + 20
    while not started[0].done() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert started[0].done()


def case_an_error_in_the_first_backward_of_a_static_graph_is_typed():
    rank, _ = here()

    def hook(_, bucket):
        wrong = torch.ones(2 + min(rank, 1))
        future = dist.all_reduce(wrong, async_op=True).get_future()
        return future.then(lambda _: bucket.buffer())

    model = DistributedDataParallel(make_model(), static_graph=True)
    model.register_comm_hook(None, hook)
    with pytest.raises(ronde.MismatchError, match="allreduce"):
        model(batch(0)[0]).sum().backward()


def case_ddp_without_sync_accumulates():
    model = DistributedDataParallel(make_model())
    reference = make_model()
    for step in range(2):
        inputs, _ = batch(step)
        reference(inputs).mean().backward()
    with model.no_sync():
        model(mine(batch(0)[0])).mean().backward()
    model(mine(batch(1)[0])).mean().backward()
    for parameter, wanted in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(parameter.grad, wanted.grad)


def case_ddp_with_uneven_inputs_joins():
    rank, size = here()
    model = DistributedDataParallel(make_model())
    steps = 0
    with Join([model]):
        for _ in range(rank + 1):
            model(mine(batch(0)[0])).sum().backward()
            steps += 1
    assert steps == rank + 1
    everyone = [None] * size
    dist.all_gather_object(everyone, model.module[0].weight.grad)
    assert all(torch.isfinite(gradient).all() for gradient in everyone)


def case_ddp_communication_hooks():
    model = DistributedDataParallel(make_model())
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    check(train(model).module.state_dict())
    model = DistributedDataParallel(make_model())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    check(train(model).module.state_dict(), tolerance=1e-2)


def case_ddp_hooks_may_start_operations_in_callbacks():
    model = DistributedDataParallel(make_model(), bucket_cap_mb=1e-4)
    state = powerSGD_hook.PowerSGDState(None, 3, start_powerSGD_iter=2, min_compression_rate=0.1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(model, steps=5)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, model.module[0].weight.detach())
    for other in everyone:
        torch.testing.assert_close(other, everyone[0])
    assert state.iter > 2


def case_ddp_with_sparse_gradients_and_buffers():
    rank, size = here()
    torch.manual_seed(2)
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Flatten(), nn.BatchNorm1d(3))
    model = DistributedDataParallel(model)
    model(torch.tensor([[rank], [rank]])).sum().backward()
    gradient = model.module[0].weight.grad
    assert gradient.is_sparse
    assert gradient.coalesce().indices().tolist() == [list(range(size))]


def case_fsdp_trains_as_one_process_does():
    model = make_model()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    train(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    check({name: tensor.full_tensor() for name, tensor in model.state_dict().items()})


def case_fsdp_trains_with_rounded_gradients_and_parameters():
    with pytest.raises(ronde.InvalidArgumentError, match="no module of the model is sharded"):
        ronde.torch.distributed.compress_fsdp(make_model())
    results = []
    for compressed in (False, True, True):
        model = make_model()
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        if compressed:
            with pytest.raises(ronde.InvalidArgumentError, match="allowed: fp16, bf16, int8"):
                ronde.torch.distributed.compress_fsdp(model, Compression.topk)
            ronde.torch.distributed.compress_fsdp(model, "int8:block=64", Compression.bf16)
        train(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        results.append({name: one.full_tensor() for name, one in model.state_dict().items()})
    names = [name for _, name in Compression.state_dict()["residuals"] if name[:5] == "fsdp."]
    assert len({name.split(".")[1] for name in names}) == 2  # each model has its own
    for name, value in results[1].items():
        torch.testing.assert_close(value, results[0][name], atol=0.02, rtol=0.05)


def case_zero_redundancy_optimizer():
    model = DistributedDataParallel(make_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    train(model, optimizer=optimizer)
    reference = make_model()
    train(reference, optimizer=torch.optim.Adam(reference.parameters(), lr=0.01), whole=True)
    check(model.module.state_dict(), reference.state_dict())
    optimizer.consolidate_state_dict(to=0)


def case_dtensors_are_sharded_and_gathered():
    _, size = here()
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(2.0 * size * 3).reshape(2 * size, 3)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert sharded.to_local().shape == (2, 3)
    assert torch.equal(sharded.full_tensor(), whole)
    columns = sharded.redistribute(placements=[Shard(1)])  # an alltoall, uneven at 2 ranks
    assert torch.equal(columns.redistribute(placements=[Replicate()]).to_local(), whole)
    product = sharded.t() @ sharded  # a partial sum
    torch.testing.assert_close(product.full_tensor(), whole.t() @ whole)


def case_tensor_parallel_layers():
    _, size = here()
    torch.manual_seed(3)
    width = 4 * size
    model = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))
    reference = copy.deepcopy(model)
    mesh = init_device_mesh("cpu", (size,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs, _ = batch(0)
    output = model(inputs)
    torch.testing.assert_close(output, reference(inputs))
    output.sum().backward()
    reference(inputs).sum().backward()
    gradient = model[0].weight.grad.full_tensor()
    torch.testing.assert_close(gradient, reference[0].weight.grad)


def case_pipeline_passes_activations_and_gradients():
    rank, size = here()
    torch.manual_seed(4)
    stages = [nn.Linear(5, 5) for _ in range(size)]
    reference = copy.deepcopy(stages)
    value = torch.ones(2, 5)
    for micro_batch in range(3):
        incoming = torch.full((2, 5), float(micro_batch))
        if rank > 0:
            dist.recv(incoming, rank - 1, tag=micro_batch)
            incoming.requires_grad_()
        output = torch.tanh(stages[rank](incoming))
        if rank < size - 1:
            dist.send(output.detach(), rank + 1, tag=micro_batch)
            gradient = torch.empty(2, 5)
            dist.recv(gradient, rank + 1, tag=micro_batch)
            output.backward(gradient)
        else:
            output.sum().backward()
        if rank > 0:
            dist.send(incoming.grad, rank - 1, tag=micro_batch)
        value = torch.full((2, 5), float(micro_batch))
        for stage in reference:
            value = torch.tanh(stage(value))
        value.sum().backward()
    torch.testing.assert_close(stages[rank].weight.grad, reference[rank].weight.grad)


def case_distributed_sampler_covers_everything_once():
    _, size = here()
    data = TensorDataset(torch.arange(12 * size))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    sampler.set_epoch(1)
    seen = torch.cat([rows for (rows,) in loader])
    everything = torch.empty(12 * size, dtype=torch.int64)
    dist.all_gather_into_tensor(everything, seen)
    assert sorted(everything.tolist()) == list(range(12 * size))


def case_training_ends():
    dist.destroy_process_group()
