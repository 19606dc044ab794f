"""Collectives that move tensors as they are: allgather, broadcast, alltoall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union, cast, overload

import torch

from ronde._calls.argument_checks import several
from ronde._calls.described import described
from ronde._calls.forms import forms
from ronde._calls.handle import Handle, first
from ronde._calls.reduce_ops import Average
from ronde._collectives.calls import Call
from ronde._compression.choice import started
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import rank
from ronde.torch._collectives.adapter import check_in_place, check_tensors, collectives
from ronde.torch._collectives.allreduce import Compressor, grouped_allreduce
from ronde.torch._collectives.autograd import attach, attached
from ronde.torch.compression import Compression, wire_for

Tensor = torch.Tensor
Splits = Union[Sequence[int], Tensor]

__all__ = [
    "allgather",
    "allgather_async",
    "alltoall",
    "alltoall_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
]


def _grouped_allgather(
    wait: bool,
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    compression: Compressor = Compression.none,
) -> Handle[list[Tensor]]:
    """allgather() of several tensors as one operation: all or none."""
    tensors = several(tensors)
    check_tensors(tensors)
    rows = [tensor.shape[0] if tensor.dim() else 1 for tensor in tensors]

    def backward(gradients: Sequence[Tensor]) -> list[Tensor]:
        averaged = grouped_allreduce(gradients, op=Average, process_set=process_set)
        counts = allgather(torch.tensor([rows]), process_set=process_set)
        before = counts[: process_set.rank()].sum(dim=0).tolist()
        mine = [g.narrow(0, b, n) for g, b, n in zip(averaged, before, rows)]
        return [g.reshape(t.shape) for g, t in zip(mine, tensors)]

    def start(sent: Sequence[Tensor], call: Call) -> Handle[list[Tensor]]:
        handle = collectives.allocating("allgather", wait, sent, call)
        return attached(handle, sent, backward) if wait else handle

    return started(tensors, compression, Call(name, process_set), wire_for, start)


def _allgather(
    wait: bool,
    tensor: Tensor,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    compression: Compressor = Compression.none,
) -> Handle[Tensor]:
    """Joins the tensors of all ranks along the first dimension, in order of rank.

    Ranks may have different first dimensions; the others must agree. Returns a new tensor.
    `compression`: fp16, bf16, int8, int4 or auto. All ranks get the same bits, this one too.
    """
    return first(_grouped_allgather(wait, [tensor], name, process_set, compression))


allgather, allgather_async = forms(_allgather)
grouped_allgather, grouped_allgather_async = forms(_grouped_allgather)


def _broadcast(
    wait: bool,
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]:
    """Gives every rank the tensor of `root_rank` (a rank of the job), as a new tensor.

    Every rank passes a tensor of the same shape and dtype.
    """

    def backward(gradients: Sequence[Tensor]) -> list[Tensor]:
        averaged = grouped_allreduce(gradients, op=Average, process_set=process_set)
        return averaged if rank() == root_rank else [torch.zeros_like(g) for g in averaged]

    handle = collectives.broadcast(wait, [tensor], None, Call(name, process_set, root=root_rank))
    return first(attached(handle, [tensor], backward) if wait else handle)


def _broadcast_(
    wait: bool,
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]:
    """As broadcast(), in place. Returns `tensor`."""
    check_in_place([tensor])
    call = Call(name, process_set, root=root_rank)
    return first(collectives.broadcast(wait, [tensor], [tensor], call))


broadcast, broadcast_async = forms(_broadcast)
broadcast_, broadcast_async_ = forms(_broadcast_)


def _alltoall(
    wait: bool,
    tensor: Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    def finish(result: tuple[Tensor, list[int]]) -> Any:
        output, received = result
        if wait:
            (output,) = attach([output], [tensor], lambda back: [returned(back[0], received)])
        return output if splits is None else (output, torch.tensor(received, dtype=torch.int32))

    def returned(gradient: Tensor, counts: list[int]) -> Tensor:
        return alltoall(gradient, counts, process_set=process_set)[0]

    return collectives.alltoall(wait, tensor, splits, Call(name, process_set)).then(finish)


@overload
def alltoall(
    tensor: Tensor,
    splits: None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor: ...
@overload
def alltoall(
    tensor: Tensor,
    splits: Splits,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[Tensor, Tensor]: ...
@described
def alltoall(
    tensor: Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor | tuple[Tensor, Tensor]:
    """Sends splits[r] rows of `tensor` to rank r, in order; equal chunks by default.

    Returns the received rows, in order of sender. With `splits` (a sequence or a tensor of
    integers, one for each rank) returns a pair of those and an int32 tensor: the number from each
    rank.
    """
    result = _alltoall(True, tensor, splits, name, process_set).wait()
    return cast("Tensor | tuple[Tensor, Tensor]", result)


@overload
def alltoall_async(
    tensor: Tensor,
    splits: None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]: ...
@overload
def alltoall_async(
    tensor: Tensor,
    splits: Splits,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Tensor, Tensor]]: ...
@described
def alltoall_async(
    tensor: Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """Starts alltoall(); its result is that of the handle's wait()."""
    return _alltoall(False, tensor, splits, name, process_set)
