"""The allreduce family: sums, averages, extremes and products over ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ronde._calls.argument_checks import several
from ronde._calls.described import described
from ronde._calls.forms import blocking, forms
from ronde._calls.handle import Handle, first
from ronde._calls.reduce_ops import Sum, reduce_op
from ronde._collectives.calls import Call
from ronde._compression.choice import compressed, resolved
from ronde._compression.rules import checked_one
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde.torch._collectives.adapter import (
    check_in_place,
    check_op,
    check_tensors,
    check_unmoved,
    collectives,
    reduce_one,
)
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


_output: Callable[[Any], Tensor] = operator.attrgetter("kept")


def _written(operation: Any) -> Tensor:
    """The tensor of an operation in place; raises where it was given other memory."""
    tensor = operation.kept
    check_unmoved(tensor, operation.address)
    return tensor  # type: ignore[no-any-return]


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


def _grouped_allreduce(
    wait: bool,
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Handle[list[Tensor]]:
    """allreduce() of several tensors as one operation: all or none. Returns a list."""
    tensors = several(tensors)
    scale = (prescale_factor, postscale_factor)
    call = Call(name, process_set, reduce_op(average, op), scale, weight=weight)
    if compression is Compression.none:
        return _reduce(wait, tensors, call)
    check_tensors(tensors)
    wires = {wire_for(checked_one(compression), tensor) for tensor in tensors}
    wire = wires.pop() if len(wires) == 1 else ""
    if wire:
        return _reduce(wait, tensors, call._replace(compression=wire))
    return compressed(tensors, resolved(compression), lambda sent: _reduce(wait, sent, call))


def _allreduce(
    wait: bool,
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Handle[Tensor]:
    """Combines a tensor over all ranks, element by element; shapes and dtypes must agree.

    Returns a new tensor, the same on all ranks. `compression`: a codec. Its residual is added to
    the next tensor of the same name. `weight`: this rank's part in a weighted average,
    sum(weight * tensor) / sum(weight) over the ranks: the number of its samples where batches
    differ. Not negative; 0 on some ranks only; for floating types. All ranks give one, or none.
    """
    scale = (prescale_factor, postscale_factor)
    if not wait and weight is None:
        call = Call(name, process_set, reduce_op(average, op), scale)
        handle = reduce_one(wait, tensor, torch.empty_like, _output, call)
        if handle is not None:
            return handle
    options = (average, name, compression, op, *scale, process_set, weight)
    return first(_grouped_allreduce(wait, [tensor], *options))


allreduce = blocking(_allreduce)
grouped_allreduce = blocking(_grouped_allreduce)


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
    none, pre, post = Compression.none, prescale_factor, postscale_factor
    return _allreduce(False, tensor, average, name, none, op, pre, post, process_set, weight)


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
    options = (op, prescale_factor, postscale_factor, process_set, weight)
    return _grouped_allreduce(False, tensors, average, name, Compression.none, *options)


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


def _allreduce_(
    wait: bool,
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    weight: float | None = None,
) -> Handle[Tensor]:
    """As allreduce(), in place. Returns `tensor`."""
    scale = (prescale_factor, postscale_factor)
    if weight is None and not getattr(tensor, "requires_grad", True):
        call = Call(name, process_set, reduce_op(average, op), scale)
        handle = reduce_one(wait, tensor, None, _written, call)
        if handle is not None:
            return handle
    options = (average, name, op, *scale, process_set, weight)
    return first(_grouped_allreduce_(wait, [tensor], *options))


allreduce_, allreduce_async_ = forms(_allreduce_)
grouped_allreduce_, grouped_allreduce_async_ = forms(_grouped_allreduce_)
