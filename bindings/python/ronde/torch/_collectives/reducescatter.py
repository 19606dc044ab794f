"""reducescatter: each rank gets its chunk of the rows of the reduced tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ronde._calls.argument_checks import several
from ronde._calls.described import described
from ronde._calls.forms import blocking
from ronde._calls.handle import Handle, first
from ronde._calls.reduce_ops import Average, Sum
from ronde._collectives.calls import Call
from ronde._compression.choice import compressed, resolved
from ronde._compression.rules import checked_one
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde.torch._collectives.adapter import check_op, check_tensors, collectives
from ronde.torch._collectives.allreduce import Compressor, Tensor
from ronde.torch._collectives.autograd import attached
from ronde.torch._collectives.exchange import grouped_allgather
from ronde.torch.compression import Compression

__all__ = [
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "reducescatter",
    "reducescatter_async",
]


def _reduce(wait: bool, tensors: Sequence[Tensor], call: Call) -> Handle[list[Tensor]]:
    check_tensors(tensors)
    check_op(tensors, call.op)
    handle = collectives.allocating("reduce_scatter", wait, tensors, call)
    if not wait:
        return handle

    def backward(gradients: Sequence[Tensor]) -> list[Tensor]:
        factor = call.scale[0] * call.scale[1]
        factor *= (call.process_set.size() or 1) if call.op == Sum else 1
        scaled = [gradient * factor for gradient in gradients]
        return grouped_allgather(scaled, process_set=call.process_set)

    return attached(handle, tensors, backward)


def _grouped_reducescatter(
    wait: bool,
    tensors: Sequence[Tensor],
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[Tensor]]:
    """reducescatter() of several tensors as one operation: all or none."""
    tensors = several(tensors)
    check_tensors(tensors)
    call = Call(name, process_set, op, (prescale_factor, postscale_factor))
    chosen = resolved(checked_one(compression))
    return compressed(tensors, chosen, lambda sent: _reduce(wait, sent, call))


def _reducescatter(
    wait: bool,
    tensor: Tensor,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Tensor]:
    """Combines a tensor over all ranks and returns this rank's chunk of its rows.

    If the rows do not divide evenly, the first ranks get one more each. Not for scalars.
    """
    options = (name, compression, op, process_set, prescale_factor, postscale_factor)
    return first(_grouped_reducescatter(wait, [tensor], *options))


reducescatter = blocking(_reducescatter)
grouped_reducescatter = blocking(_grouped_reducescatter)


@described
def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Tensor]:
    """Starts reducescatter(), without compression; its result is that of the handle's wait()."""
    options = (op, process_set, prescale_factor, postscale_factor)
    return _reducescatter(False, tensor, name, Compression.none, *options)


@described
def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[Tensor]]:
    """Starts grouped_reducescatter(), without compression; the handle's wait() returns a list."""
    options = (op, process_set, prescale_factor, postscale_factor)
    return _grouped_reducescatter(False, tensors, name, Compression.none, *options)
