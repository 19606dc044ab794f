"""FSDP2, and with it tensor and pipeline parallelism, on 8 ranks over the backend `ronde`.

Each training is compared with the same one in a single process.
"""

import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
import ronde.torch.distributed  # noqa: F401  (registers the backend)
import torch
import torch.distributed as dist
from pipeline_cases import train as train_pipeline
from torch import nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))
import train_gpt_3d
from character_model import CharacterModel, batch_of, load_text, loss_of

RANKS = (8,)
WIDTH, ROWS, STEPS = 16, 2, 3


class Block(nn.Module):
    """Two layers, whose result is added."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.second(torch.tanh(self.first(x)))


def make_model(blocks=2):
    torch.manual_seed(5)
    return nn.Sequential(*[Block() for _ in range(blocks)])


def batch(step, parts):
    """Inputs and targets; `parts`: ranks among which the rows are shared out."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn((2, ROWS * parts, WIDTH), generator=generator)


def part_of(tensor, index):
    return tensor[index * ROWS : (index + 1) * ROWS]


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def single(parts, dtype=torch.float32, blocks=2):
    """(losses, parameters by name) of one process: gradients of each part in `dtype`, averaged."""
    model, used = make_model(blocks), make_model(blocks).to(dtype)
    optimizer, losses = optimizer_of(model), []
    for step in range(STEPS):
        inputs, targets = batch(step, parts)
        total = 0.0
        optimizer.zero_grad()
        for index in range(parts):
            used.load_state_dict(model.state_dict())
            used.zero_grad()
            outputs = used(part_of(inputs, index).to(dtype))
            loss = nn.functional.mse_loss(outputs, part_of(targets, index).to(dtype))
            loss.backward()
            total += loss.item() / parts
            for parameter, other in zip(model.parameters(), used.parameters()):
                share = other.grad.float() / parts
                parameter.grad = share if parameter.grad is None else parameter.grad + share
        optimizer.step()
        losses.append(total)
    return losses, model.state_dict()


def check(model, losses, wanted):
    wanted_losses, state = wanted
    assert losses == pytest.approx(wanted_losses, rel=1e-5)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor.full_tensor(), state[name], rtol=1e-5, atol=1e-6)


def train(model, index, parts):
    """The losses, averaged over all ranks, of training on part `index`."""
    optimizer, losses = optimizer_of(model), []
    for step in range(STEPS):
        inputs, targets = batch(step, parts)
        optimizer.zero_grad()
        outputs = model(part_of(inputs, index))
        loss = nn.functional.mse_loss(outputs, part_of(targets, index).to(outputs.dtype))
        loss.backward()
        optimizer.step()
        mean = loss.detach().float() / parts
        dist.all_reduce(mean)
        losses.append(mean.item())
    return losses


def sharded(**options):
    model = make_model()
    for block in model:
        fully_shard(block, **options)
    fully_shard(model, **options)
    return model


def losses_of_gpt(steps, rows, length, layers=2):
    """Of one process that trains the model of the examples."""
    torch.manual_seed(0)
    model, text = CharacterModel(layers=layers, longest=length), load_text()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, *batch_of(text, step, rows, length))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def case_the_gpt_of_the_examples_trains_in_three_ways_at_once():
    file = Path(tempfile.gettempdir()) / f"losses.{os.environ['RANK']}"
    options = ["--steps", "6", "--rows", "16", "--length", "16"]
    for more in ([], ["--bfloat16"], ["--pipeline", "4", "--layers", "4", "--tensor", "1"]):
        sys.argv = ["train_gpt_3d.py", *options, "--losses", str(file), *more]
        train_gpt_3d.main()
        if os.environ["RANK"] != "0":
            continue
        losses = json.loads(file.read_text())
        tolerance = 0.01 if "--bfloat16" in more else 1e-5
        wanted = losses_of_gpt(6, 16, 16, layers=4 if "--layers" in more else 2)
        assert losses == pytest.approx(wanted, rel=tolerance)


def case_eight_ranks_start():
    dist.init_process_group("ronde", timeout=datetime.timedelta(seconds=60))


def case_fsdp_with_any_reshard_after_forward():
    wanted = single(8)
    for reshard in (True, False, 2, 4):
        model = sharded(reshard_after_forward=reshard)
        check(model, train(model, dist.get_rank(), 8), wanted)


def case_fsdp_computes_in_bfloat16_and_reduces_in_float32():
    wanted = single(8, torch.bfloat16)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for reshard in (True, False, 4):
        model = sharded(mp_policy=policy, reshard_after_forward=reshard)
        check(model, train(model, dist.get_rank(), 8), wanted)


def case_hsdp_on_2_x_2_ranks():
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("half", "replicate", "shard"))
    mesh = mesh["replicate", "shard"]
    wanted = single(4)
    model = sharded(mesh=mesh)
    losses = train(model, dist.get_rank() % 4, 4)
    check(model, [loss / 2 for loss in losses], wanted)  # both halves add theirs


def case_pipelines_of_4_ranks():
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "pipeline"))
    for name in ("1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"):
        train_pipeline(name, group=mesh.get_group("pipeline"))


def stage_of(mesh, blocks):
    """This rank's blocks: layers split over `tensor`, sharded over `data`."""
    for block in blocks:
        plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
        parallelize_module(block, mesh["tensor"], plan)
        fully_shard(block, mesh=mesh["data"])
    return fully_shard(blocks, mesh=mesh["data"], reshard_after_forward=False)


def case_tensor_data_and_pipeline_parallel_at_once():
    names = ("pipeline", "data", "tensor")
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=names)
    at, part, _ = mesh.get_coordinate()
    microbatches, rows = 4, ROWS * 4
    model = make_model(blocks=4)
    blocks = stage_of(mesh, model[2 * at : 2 * at + 2])
    device, group = torch.device("cpu"), mesh.get_group("pipeline")
    stage = pipelining.PipelineStage(blocks, at, 2, device, group=group)
    schedule = pipelining.Schedule1F1B(stage, microbatches, loss_fn=nn.functional.mse_loss)
    optimizer, losses = optimizer_of(blocks), []
    for step in range(STEPS):
        inputs, targets = batch(step, 8)
        mine, found = slice(part * rows, (part + 1) * rows), []
        optimizer.zero_grad()
        if at == 0:
            schedule.step(inputs[mine])
        else:
            schedule.step(target=targets[mine], losses=found)
        optimizer.step()
        mean = torch.stack(found).mean().detach() / 4 if found else torch.zeros(())
        dist.all_reduce(mean)  # of two parts, each on two ranks
        losses.append(mean.item())
    wanted_losses, state = single(8, blocks=4)
    assert losses == pytest.approx(wanted_losses, rel=1e-5)
    for name, tensor in blocks.state_dict().items():
        torch.testing.assert_close(tensor.full_tensor(), state[name], rtol=1e-5, atol=1e-6)


def case_eight_ranks_end():
    dist.destroy_process_group()
