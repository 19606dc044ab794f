"""reducescatter: each rank gets its chunk of the rows of the reduced tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ronde._calls.argument_checks import several
from ronde._calls.described import described
from ronde._calls.handle import Handle, first
from ronde._calls.reduce_ops import Average, Sum
from ronde._collectives.calls import Call
from ronde._compression.choice import started
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde.torch._collectives.adapter import check_op, check_tensors, collectives
from ronde.torch._collectives.allreduce import Compressor, Tensor
from ronde.torch._collectives.autograd import attached
from ronde.torch._collectives.exchange import grouped_allgather
from ronde.torch.compression import Compression, wire_for

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


def _started(
    wait: bool,
    tensors: Sequence[Tensor],
    name: str | None,
    op: int,
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
    compression: Compressor = Compression.none,
) -> Handle[list[Tensor]]:
    tensors = several(tensors)
    check_tensors(tensors)
    call = Call(name, process_set, op, (prescale, postscale))
    return started(tensors, compression, call, wire_for, lambda sent, by: _reduce(wait, sent, by))


@described
def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Combines a tensor over all ranks and returns this rank's chunk of its rows.

    If the rows do not divide evenly, the first ranks get one more each. Not for scalars.
    `compression`: fp16, bf16, int8, int4 or auto; its residual is added to the next tensor of the
    same name.
    """
    options = (name, op, process_set, prescale_factor, postscale_factor)
    return _started(True, [tensor], *options, compression).wait()[0]


@described
def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: Compressor = Compression.none,
) -> Handle[Tensor]:
    """Starts reducescatter(); its result is that of the handle's wait()."""
    options = (name, op, process_set, prescale_factor, postscale_factor)
    return first(_started(False, [tensor], *options, compression))


@described
def grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """reducescatter() of several tensors as one operation: all or none."""
    options = (name, op, process_set, prescale_factor, postscale_factor)
    return _started(True, tensors, *options, compression).wait()


@described
def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    compression: Compressor = Compression.none,
) -> Handle[list[Tensor]]:
    """Starts grouped_reducescatter(); the handle's wait() returns a list."""
    options = (name, op, process_set, prescale_factor, postscale_factor)
    return _started(False, tensors, *options, compression)
