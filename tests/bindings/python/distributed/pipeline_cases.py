"""Torch's pipeline schedules over the backend `ronde`, compared with one process."""

import datetime

import pytest
import ronde.torch.distributed
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining

WIDTH, ROWS = 6, 2  # of a microbatch


def layers_of(count):
    torch.manual_seed(7)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]


def batch(step, microbatches):
    generator = torch.Generator().manual_seed(step)
    shape = (2, ROWS * microbatches, WIDTH)
    return torch.randn(shape, generator=generator)


def stages_of(rank, ranks, name):
    """The stages on a rank: one or, for schedules over several, two in a loop or a V."""
    if name in ("GPipe", "1F1B"):
        return [rank]
    return [rank, 2 * ranks - 1 - rank] if name in ("ZBVZeroBubble", "DualPipeV") else [
        rank, ranks + rank
    ]  # fmt: skip


def reference(layers, microbatches, steps):
    """The losses of one process, whose layers are trained."""
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        inputs, targets = batch(step, microbatches)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(name, steps=3, group=None):
    """Trains this rank's stages and compares their parameters and the loss of each step."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    mine, microbatches = stages_of(rank, ranks, name), 2 * ranks
    count = len(mine) * ranks
    wanted, layers = layers_of(count), layers_of(count)
    losses = reference(wanted, microbatches, steps)
    stages = [
        pipelining.PipelineStage(layers[at], at, count, torch.device("cpu"), group=group)
        for at in mine
    ]
    schedule = pipelining.schedules.get_schedule_class(name)(
        stages if len(mine) > 1 else stages[0], microbatches, loss_fn=nn.functional.mse_loss
    )
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(steps):
        inputs, targets = batch(step, microbatches)
        optimizer.zero_grad()
        given, found = [inputs] if mine[0] == 0 else [], []
        last = count - 1 in mine
        schedule.step(*given, target=targets if last else None, losses=found if last else None)
        optimizer.step()
        if last:
            assert torch.stack(found).mean().item() == pytest.approx(losses[step], rel=1e-5)
    for at in mine:
        for parameter, other in zip(layers[at].parameters(), wanted[at].parameters()):
            torch.testing.assert_close(parameter, other, rtol=1e-5, atol=1e-6)


def case_pipelines_start():
    dist.init_process_group("ronde", timeout=datetime.timedelta(seconds=60))


def case_gpipe_trains_as_one_process_does():
    train("GPipe")


def case_1f1b_trains_as_one_process_does():
    train("1F1B")


def case_interleaved_schedules_train_as_one_process_does():
    for name in ("LoopedBFS", "Interleaved1F1B"):
        train(name)


def case_zero_bubble_schedules_train_as_one_process_does():
    for name in ("InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"):
        train(name)


def case_messages_of_a_batch_in_both_directions():
    """Ranks of a ring send and receive long and short tensors in one batch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (3, 100_000):
        for_next, for_last = torch.full((count,), 1.0 * rank), torch.full((count,), -1.0 * rank)
        from_last, from_next = torch.empty(count), torch.empty(count)
        after, before = (rank + 1) % size, (rank - 1) % size
        operations = [
            dist.P2POp(dist.isend, for_next, after, tag=1),
            dist.P2POp(dist.irecv, from_next, after, tag=2),
            dist.P2POp(dist.irecv, from_last, before, tag=1),
            dist.P2POp(dist.isend, for_last, before, tag=2),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert (from_last == before).all()
        assert (from_next == -after).all()


def case_a_stage_that_expects_another_shape_is_told():
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.ones(4), 1)
    elif rank == 1:
        with pytest.raises(ronde.MismatchError, match="rank 0 sent 16 bytes"):
            dist.recv(torch.empty(5), 0)


def case_pipelines_end():
    dist.destroy_process_group()
