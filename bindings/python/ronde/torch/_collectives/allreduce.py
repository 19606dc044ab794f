"""The allreduce family: sums, averages, extremes and products over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ronde import _core
from ronde._calls.argument_checks import several
from ronde._calls.described import described
from ronde._calls.forms import forms
from ronde._calls.handle import Handle, first
from ronde._calls.reduce_ops import Sum, reduce_op
from ronde._collectives.calls import Call
from ronde._compression.choice import started
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde.torch._collectives.adapter import check_in_place, check_op, check_tensors, collectives
from ronde.torch._collectives.autograd import attached
from ronde.torch.compression import Compression, wire_for

Tensor = torch.Tensor
Compressor = Any

__all__ = [
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
]


# allreduce() of a tensor that the core can read, which costs less than any check here. It is in
# place where `make_output` is None, and gives None, with nothing done, where checks are needed.
_reduce_one = _core.reduce_tensor


def _reduce(wait: bool, tensors: Sequence[Tensor], call: Call) -> Handle[list[Tensor]]:
    """allreduce() into new tensors; can be differentiated if the caller waits."""
    check_tensors(tensors)
    check_op(tensors, call.op)
    handle = collectives.allreduce(wait, tensors, None, call)
    if not wait:
        return handle
    again = call._replace(name=None)
    if call.weight is not None:
        return attached(handle, tensors, lambda gradients: _shares(gradients, again))
    return attached(handle, tensors, lambda gradients: _reduce(True, gradients, again).wait())


def _shares(gradients: Sequence[Tensor], call: Call) -> list[Tensor]:
    """The gradients of a weighted average: the sum of all ranks' times this rank's share."""
    weight = gradients[0].new_full((1,), call.weight or 0.0, dtype=torch.float64)
    summed = call._replace(op=Sum, weight=None)
    *sums, total = _reduce(True, [*gradients, weight], summed._replace(scale=(1.0, 1.0))).wait()
    factor = call.scale[0] * call.scale[1] * (weight / total).item()
    return [gradient * factor for gradient in sums]


def _new(
    wait: bool,
    tensors: Sequence[Tensor],
    average: bool | None,
    name: str | None,
    op: int | None,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    weight: float | None,
    compression: Compressor = Compression.none,
) -> Handle[list[Tensor]]:
    """allreduce() of several tensors into new ones."""
    tensors = several(tensors)
    call = Call(name, process_set, reduce_op(average, op), (prescale, postscale), weight=weight)
    if compression is Compression.none:
        return _reduce(wait, tensors, call)
    check_tensors(tensors)
    return started(tensors, compression, call, wire_for, lambda sent, by: _reduce(wait, sent, by))


@described
def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Tensor:
    """Combines a tensor over all ranks, element by element; shapes and dtypes must agree.

    Returns a new tensor, the same on all ranks. `compression`: a codec. Its residual is added to
    the next tensor of the same name. `weight`: this rank's part in a weighted average,
    sum(weight * tensor) / sum(weight) over the ranks: the number of its samples where batches
    differ. Not negative; 0 on some ranks only; for floating types. All ranks give one, or none.
    """
    options = (average, name, op, prescale_factor, postscale_factor, process_set, weight)
    if compression is Compression.none:
        handle = _reduce_one(True, tensor, torch.empty_like, options)
        if handle is not None:
            return handle.wait()
    return _new(True, [tensor], *options, compression).wait()[0]


@described
def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Handle[Tensor]:
    """Starts allreduce(), without compression; its result is that of the handle's wait()."""
    options = (average, name, op, prescale_factor, postscale_factor, process_set, weight)
    handle = _reduce_one(False, tensor, torch.empty_like, options)
    return first(_new(False, [tensor], *options)) if handle is None else handle


@described
def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> list[Tensor]:
    """allreduce() of several tensors as one operation: all or none. Returns a list."""
    options = (average, name, op, prescale_factor, postscale_factor, process_set, weight)
    return _new(True, tensors, *options, compression).wait()


@described
def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Handle[list[Tensor]]:
    """Starts grouped_allreduce(), without compression; the handle's wait() returns a list."""
    options = (average, name, op, prescale_factor, postscale_factor, process_set, weight)
    return _new(False, tensors, *options)


def _grouped_allreduce_(
    wait: bool,
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Handle[list[Tensor]]:
    """As grouped_allreduce(), in place."""
    tensors = several(tensors)
    scale = (prescale_factor, postscale_factor)
    call = Call(name, process_set, reduce_op(average, op), scale, weight=weight)
    check_in_place(tensors)
    check_op(tensors, call.op)
    return collectives.allreduce(wait, tensors, tensors, call)


grouped_allreduce_, grouped_allreduce_async_ = forms(_grouped_allreduce_)


@described
def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Tensor:
    """As allreduce(), in place. Returns `tensor`."""
    options = (average, name, op, prescale_factor, postscale_factor, process_set, weight)
    handle = _reduce_one(True, tensor, None, options)
    return grouped_allreduce_([tensor], *options)[0] if handle is None else handle.wait()


@described
def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Handle[Tensor]:
    """Starts allreduce_(); its result is that of the handle's wait()."""
    options = (average, name, op, prescale_factor, postscale_factor, process_set, weight)
    handle = _reduce_one(False, tensor, None, options)
    return first(grouped_allreduce_async_([tensor], *options)) if handle is None else handle
