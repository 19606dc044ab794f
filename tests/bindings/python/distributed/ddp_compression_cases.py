"""DDP with compression_hook."""

import pytest
import ronde
import ronde.torch.distributed
import torch
import torch.distributed as dist
from ronde.torch import Compression
from ronde.torch.distributed import CompressionState, compression_hook
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))


def train(model, everyone):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(4 * dist.get_world_size(), 6, generator=generator)
        targets = torch.randn(4 * dist.get_world_size(), 3, generator=generator)
        mine = slice(None) if everyone else slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs[mine]), targets[mine]).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def case_ddp_trains_as_one_process_with_compressed_gradients():
    dist.init_process_group("ronde")
    reference = train(make_model(), everyone=True)
    for compression, tolerance in ((Compression.fp16, 1e-3), (Compression.int8, 2e-2)):
        model = DistributedDataParallel(make_model())
        model.register_comm_hook(CompressionState(model, compression), compression_hook)
        error = (train(model, everyone=False) - reference).abs().max()
        assert 0 < error < tolerance, (compression.wire, error)


def case_ddp_with_uneven_batches_and_weights_trains_as_one_process():
    ours, reference = DistributedDataParallel(make_model()), make_model()
    state = CompressionState(ours, Compression.none)
    ours.register_comm_hook(state, compression_hook)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, reference)]
    for step in range(4):
        sizes = [1 + (2 * r + step) % 4 for r in range(dist.get_world_size())]
        inputs, targets = torch.randn(sum(sizes), 6), torch.randn(sum(sizes), 3)
        dist.broadcast(inputs, 0)
        dist.broadcast(targets, 0)
        me = dist.get_rank()
        state.set_weight(sizes[me])
        mine = slice(sum(sizes[:me]), sum(sizes[: me + 1]))
        for model, rows, optimizer in zip((ours, reference), (mine, slice(None)), optimizers):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs[rows]), targets[rows]).backward()
            optimizer.step()
    for mine, theirs in zip(ours.parameters(), reference.parameters()):
        assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def case_residuals_are_kept_by_parameter():
    kept = {name for _, name in Compression.state_dict()["residuals"]}
    assert {"ddp.0.weight", "ddp.2.weight"} <= kept
    assert not any(name.startswith("ddp.") and name.endswith("bias") for name in kept)


def case_rules_choose_what_ddp_compresses():
    rules = [Compression.rule("*.weight", min_elements=192, use=Compression.int4(seed=5))]
    model = DistributedDataParallel(make_model())
    state = CompressionState(model, rules)
    model.register_comm_hook(state, compression_hook)
    assert train(model, everyone=False).isfinite().all()
    assert sorted(set(state.wires.values())) == ["", "int4:seed=5"]

    def choose(name, parameter):
        return Compression.int8 if parameter.numel() == 3 else None

    state = CompressionState(model, choose)
    assert {name for p, name in state.names.items() if state.wires[p]} == {"2.bias"}
    with pytest.raises(ronde.InvalidArgumentError, match=r"consists of Compression\.rule"):
        CompressionState(model, [Compression.int8])
    with pytest.raises(ronde.InvalidArgumentError, match=r'for "0\.weight": compression must'):
        CompressionState(model, lambda name, parameter: 3)


def case_every_compression_works_in_ddp_without_arguments():
    for name in ("none", "fp16", "int8", "int4", "onebit", "topk", "randomk", "powersgd", "auto"):
        for form in (getattr(Compression, name), getattr(Compression, name)(), name):
            model = DistributedDataParallel(make_model())
            model.register_comm_hook(CompressionState(model, form), compression_hook)
            assert train(model, everyone=False).isfinite().all(), form


def case_other_compressors_and_groups_are_refused():
    model = DistributedDataParallel(make_model())
    with pytest.raises(ronde.InvalidArgumentError, match="takes codecs"):
        CompressionState(model, object())
    with pytest.raises(ronde.InvalidArgumentError, match="'int9'"):
        CompressionState(model, "int9")
    with pytest.raises(ronde.InvalidArgumentError, match="backend ronde"):
        CompressionState(model, Compression.int8, dist.new_group(backend="gloo"))
    dist.barrier()  # Gloo fails on ranks that still connect to one that has ended its group
    dist.destroy_process_group()
