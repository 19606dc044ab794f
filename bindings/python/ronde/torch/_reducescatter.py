"""reducescatter: each rank gets its chunk of the rows of the reduced tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ronde._collectives import AVERAGE as Average
from ronde._collectives import SUM
from ronde._compression import resolved
from ronde._handle import Handle, first
from ronde._job import ProcessSet, global_process_set
from ronde._rules import checked_one
from ronde.torch._adapter import check_op, check_tensors, collectives
from ronde.torch._allreduce import Compressor, Tensor, compressed
from ronde.torch._autograd import attach
from ronde.torch._exchange import grouped_allgather
from ronde.torch._integers import reduced
from ronde.torch.compression import Compression

__all__ = [
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "reducescatter",
    "reducescatter_async",
]


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
    """
    scale = (prescale_factor, postscale_factor)
    return grouped_reducescatter([tensor], name, compression, op, process_set, *scale)[0]


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Tensor]:
    """Starts reducescatter()."""
    scale = (prescale_factor, postscale_factor)
    return first(grouped_reducescatter_async([tensor], name, op, process_set, *scale))


def _reduce(
    wait: bool,
    tensors: Sequence[Tensor],
    name: str | None,
    op: int,
    scale: tuple[float, float],
    process_set: ProcessSet,
) -> Handle[list[Tensor]]:
    check_tensors(tensors)
    check_op(tensors, op)
    return reduced(
        lambda scale: collectives.reduce_scatter(wait, tensors, name, op, scale, process_set),
        tensors,
        op,
        scale,
        process_set,
    )


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
    check_tensors(tensors)
    scale = (prescale_factor, postscale_factor)

    def run(sent: Sequence[Tensor]) -> list[Tensor]:
        return attach(_reduce(True, sent, name, op, scale, process_set).wait(), sent, backward)

    def backward(gradients: Sequence[Tensor]) -> list[Tensor]:
        factor = prescale_factor * postscale_factor
        factor *= (process_set.size() or 1) if op == SUM else 1
        scaled = [gradient * factor for gradient in gradients]
        return grouped_allgather(scaled, process_set=process_set)

    return compressed(tensors, resolved(checked_one(compression)), run)


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[list[Tensor]]:
    """Starts grouped_reducescatter()."""
    scale = (prescale_factor, postscale_factor)
    return _reduce(False, tensors, name, op, scale, process_set)
