"""The allreduce family: sums, averages, extremes and products over ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ronde._collectives import reduce_op
from ronde._compression import resolved
from ronde._forms import forms
from ronde._handle import Handle, first
from ronde._job import ProcessSet, global_process_set
from ronde._rules import checked_one
from ronde.torch._adapter import check_in_place, check_op, check_tensors, collectives, plain_view
from ronde.torch._autograd import attach
from ronde.torch._integers import reduced
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


def compressed(
    tensors: Sequence[Tensor],
    compression: Compressor,
    run: Callable[[list[Tensor]], Sequence[Tensor]],
) -> list[Tensor]:
    """Compresses the tensors, calls `run` with them, and decompresses the result."""
    pairs = [compression.compress(tensor) for tensor in tensors]
    results = run([tensor for tensor, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


def _input(operation: Any) -> Tensor:
    return operation.kept  # type: ignore[no-any-return]


def _output(operation: Any) -> Tensor:
    return operation.kept[1]  # type: ignore[no-any-return]


def _reduce(
    wait: bool,
    tensors: Sequence[Tensor],
    name: str | None,
    op: int,
    scale: tuple[float, float],
    process_set: ProcessSet,
    wire: str = "",
) -> Handle[list[Tensor]]:
    """allreduce() into new tensors."""
    check_tensors(tensors)
    check_op(tensors, op)
    return reduced(
        lambda scale: collectives.allreduce(
            wait, tensors, None, name, op, scale, process_set, compression=wire
        ),
        tensors,
        op,
        scale,
        process_set,
    )


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Combines a tensor over all ranks, element by element; shapes and dtypes must agree.

    Returns a new tensor, the same on all ranks. `compression`: a codec. Its residual is added to
    the next tensor of the same name.
    """
    return grouped_allreduce(
        [tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set
    )[0]


def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]:
    """Starts allreduce() into a new tensor."""
    scale = (prescale_factor, postscale_factor)
    op = reduce_op(average, op)
    given = plain_view(tensor)
    if given is None:
        return first(_reduce(False, [tensor], name, op, scale, process_set))
    output = torch.empty_like(tensor)
    taken = (output.data_ptr(), given[1], given[2])
    keep = (tensor, output)
    return collectives.reduce_one(False, given, taken, keep, _output, name, op, scale, process_set)


def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """allreduce() of several tensors as one operation: all or none. Returns a list."""
    scale = (prescale_factor, postscale_factor)
    op = reduce_op(average, op)

    check_tensors(tensors)
    wire = ""
    if compression is not Compression.none:
        wires = {wire_for(checked_one(compression), tensor) for tensor in tensors}
        wire = wires.pop() if len(wires) == 1 else ""

    def run(sent: Sequence[Tensor], name: str | None = None) -> list[Tensor]:
        reduced = _reduce(True, sent, name, op, scale, process_set, wire).wait()
        return attach(reduced, sent, run)

    if wire:
        return run(tensors, name)
    return compressed(tensors, resolved(compression), lambda sent: run(sent, name))


def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Tensor]]:
    """Starts grouped_allreduce() into new tensors."""
    scale = (prescale_factor, postscale_factor)
    return _reduce(False, tensors, name, reduce_op(average, op), scale, process_set)


def _grouped_allreduce_(
    wait: bool,
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Tensor]]:
    """As grouped_allreduce(), in place."""
    op = reduce_op(average, op)
    check_in_place(tensors)
    check_op(tensors, op)
    return reduced(
        lambda scale: collectives.allreduce(wait, tensors, tensors, name, op, scale, process_set),
        tensors,
        op,
        (prescale_factor, postscale_factor),
        process_set,
    )


def _allreduce_(
    wait: bool,
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]:
    """As allreduce(), in place. Returns `tensor`."""
    scale = (prescale_factor, postscale_factor)
    given = plain_view(tensor)
    if given is not None and not tensor.requires_grad:
        op = reduce_op(average, op)
        return collectives.reduce_one(
            wait, given, given, tensor, _input, name, op, scale, process_set
        )
    return first(_grouped_allreduce_(wait, [tensor], average, name, op, *scale, process_set))


allreduce_, allreduce_async_ = forms(_allreduce_)
grouped_allreduce_, grouped_allreduce_async_ = forms(_grouped_allreduce_)
