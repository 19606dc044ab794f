"""The allreduce family: sums, averages, extremes and products over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ronde._argument_checks import several
from ronde._collectives import Call
from ronde._compression import compressed, resolved
from ronde._described import described
from ronde._forms import blocking, forms
from ronde._handle import Handle, first
from ronde._job import ProcessSet, global_process_set
from ronde._reduce_ops import SUM, reduce_op
from ronde._rules import checked_one
from ronde.torch._adapter import check_in_place, check_op, check_tensors, collectives, plain_view
from ronde.torch._autograd import attached
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


def _input(operation: Any) -> Tensor:
    return operation.kept  # type: ignore[no-any-return]


def _output(operation: Any) -> Tensor:
    return operation.kept[1]  # type: ignore[no-any-return]


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
    summed = call._replace(op=SUM, weight=None)
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
    given = None if wait or weight is not None else plain_view(tensor)
    if given is None:
        options = (average, name, compression, op, *scale, process_set, weight)
        return first(_grouped_allreduce(wait, [tensor], *options))
    output = torch.empty_like(tensor)
    taken = (output.data_ptr(), given[1], given[2])
    keep, op = (tensor, output), reduce_op(average, op)
    return collectives.reduce_one(wait, given, taken, keep, _output, name, op, scale, process_set)


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
    options = (op, prescale_factor, postscale_factor, process_set, weight)
    return _allreduce(False, tensor, average, name, Compression.none, *options)


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
    given = plain_view(tensor) if weight is None else None
    if given is not None and not tensor.requires_grad:
        op = reduce_op(average, op)
        return collectives.reduce_one(
            wait, given, given, tensor, _input, name, op, scale, process_set
        )
    options = (average, name, op, *scale, process_set, weight)
    return first(_grouped_allreduce_(wait, [tensor], *options))


allreduce_, allreduce_async_ = forms(_allreduce_)
grouped_allreduce_, grouped_allreduce_async_ = forms(_grouped_allreduce_)
