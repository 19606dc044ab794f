"""Collectives on torch tensors, with the names and meaning of `horovod.torch.mpi_ops`.

Tensors are dense, on the CPU, of dtype uint8, int8, int16, int32, int64, float16, bfloat16,
float32, float64 or bool; contiguous ones are used in place. `x` blocks and can be differentiated;
`x_` works in place; `x_async` and `x_async_` return a handle for poll() and synchronize(), and
their tensors must stay untouched until then. Errors derive from HorovodInternalError (a
RuntimeError); wrong arguments and duplicate names are ValueErrors besides.

Common arguments: `name` makes operations of the same name meet (without it the k-th unnamed one of
each rank meet); `op` is Sum, Average, Min, Max or Product, and None means what `average` says:
Average by default; `prescale_factor` and `postscale_factor` multiply inputs and outputs;
`process_set` limits the operation to some ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ronde import _collectives
from ronde._collectives import AVERAGE as Average
from ronde._collectives import MAX as Max
from ronde._collectives import MIN as Min
from ronde._collectives import PRODUCT as Product
from ronde._collectives import SUM as Sum
from ronde._collectives import Handle, first, mapped
from ronde._errors import Error as HorovodInternalError
from ronde._errors import InvalidArgumentError
from ronde._job import (
    ProcessSet,
    add_process_set,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from ronde.torch import _autograd
from ronde.torch._adapter import collectives as _ops
from ronde.torch.compression import Compression

Tensor = torch.Tensor
Compressor = Any


def _resolve(average: bool | None, op: int | None) -> int:
    """The operation that the two arguments ask for together."""
    if op is not None:
        if average is not None:
            raise InvalidArgumentError("give op or average, not both; average is deprecated")
        return op
    return Sum if average is False else Average


def poll(handle: Handle[Any]) -> bool:
    """Whether the operation has ended, so that synchronize() would not block."""
    return handle.done()


def synchronize(handle: Handle[Any]) -> Any:
    """Waits for an operation and returns its result. Raises its error."""
    return handle.wait()


def _allreduce(
    wait: bool,
    tensors: Sequence[Tensor],
    outputs: Sequence[Tensor] | None,
    name: str | None,
    op: int,
    scale: tuple[float, float],
    process_set: ProcessSet,
) -> Handle[list[Tensor]]:
    return _ops.allreduce(wait, tensors, outputs, name, op, scale, process_set)


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

    Returns a new tensor, alike on all ranks. `compression` is applied on the way.
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
    op = _resolve(average, op)
    return first(_allreduce(False, [tensor], None, name, op, scale, process_set))


def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """As allreduce(), in place. Returns `tensor`."""
    scale = (prescale_factor, postscale_factor)
    op = _resolve(average, op)
    return _allreduce(True, [tensor], [tensor], name, op, scale, process_set).wait()[0]


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]:
    """Starts allreduce_()."""
    scale = (prescale_factor, postscale_factor)
    op = _resolve(average, op)
    return first(_allreduce(False, [tensor], [tensor], name, op, scale, process_set))


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
    op = _resolve(average, op)
    pairs = [compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in pairs]
    if any(tensor.requires_grad for tensor in sent):
        reduced = _autograd.apply(_autograd.Allreduce, name, op, scale, process_set, *sent)
    else:
        reduced = _allreduce(True, sent, None, name, op, scale, process_set).wait()
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(reduced, pairs)]


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
    return _allreduce(False, tensors, None, name, _resolve(average, op), scale, process_set)


def grouped_allreduce_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """As grouped_allreduce(), in place."""
    scale = (prescale_factor, postscale_factor)
    op = _resolve(average, op)
    return _allreduce(True, tensors, tensors, name, op, scale, process_set).wait()


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Tensor]]:
    """Starts grouped_allreduce_()."""
    scale = (prescale_factor, postscale_factor)
    return _allreduce(False, tensors, tensors, name, _resolve(average, op), scale, process_set)


def allgather(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Joins the tensors of all ranks along the first dimension, in order of rank.

    First extents may differ between ranks; the others must agree. Returns a new tensor.
    """
    return grouped_allgather([tensor], name, process_set)[0]


def allgather_async(
    tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle[Tensor]:
    """Starts allgather()."""
    return first(_ops.allgather(False, [tensor], name, process_set))


def grouped_allgather(
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """allgather() of several tensors as one operation: all or none."""
    return list(_autograd.apply(_autograd.Allgather, name, process_set, *tensors))


def grouped_allgather_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Tensor]]:
    """Starts grouped_allgather()."""
    return _ops.allgather(False, tensors, name, process_set)


def broadcast(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Gives every rank the tensor of `root_rank` (a rank of the job), as a new tensor.

    Every rank passes a tensor of the same shape and dtype.
    """
    result: Tensor = _autograd.apply(_autograd.Broadcast, tensor, root_rank, name, process_set)
    return result


def broadcast_async(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]:
    """Starts broadcast() into a new tensor."""
    return first(_ops.broadcast(False, [tensor], None, root_rank, name, process_set))


def broadcast_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """As broadcast(), in place. Returns `tensor`."""
    return _ops.broadcast(True, [tensor], [tensor], root_rank, name, process_set).wait()[0]


def broadcast_async_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Tensor]:
    """Starts broadcast_()."""
    return first(_ops.broadcast(False, [tensor], [tensor], root_rank, name, process_set))


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: Compressor = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Combines a tensor over all ranks and returns this rank's part of its rows.

    Where the rows do not divide evenly, the first ranks get one more each. Not for scalars.
    """
    return grouped_reducescatter(
        [tensor], name, compression, op, process_set, prescale_factor, postscale_factor
    )[0]


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Tensor]:
    """Starts reducescatter()."""
    return first(
        grouped_reducescatter_async(
            [tensor], name, op, process_set, prescale_factor, postscale_factor
        )
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
    scale = (prescale_factor, postscale_factor)
    pairs = [compression.compress(tensor) for tensor in tensors]
    parts = _autograd.apply(
        _autograd.Reducescatter, name, op, scale, process_set, *(tensor for tensor, _ in pairs)
    )
    return [compression.decompress(part, context) for part, (_, context) in zip(parts, pairs)]


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
    return _ops.reduce_scatter(False, tensors, name, op, scale, process_set)


def _row_counts(splits: Any) -> list[int] | None:
    """Splits as the core takes them, from a tensor or a sequence of whole numbers."""
    if splits is None:
        return None
    values = splits.tolist() if isinstance(splits, Tensor) else list(splits)
    if any(not isinstance(value, int) for value in values):
        raise InvalidArgumentError(f"splits must be whole numbers, not {values}")
    return values


def _alltoall(
    wait: bool, tensor: Tensor, splits: Any, name: str | None, process_set: ProcessSet
) -> Handle[tuple[Tensor, list[int]]]:
    return _ops.alltoall(wait, tensor, _row_counts(splits), name, process_set)


def alltoall(
    tensor: Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends splits[r] rows of `tensor` to rank r, in order; even parts by default.

    Returns the rows received, in order of sender; with `splits` (a sequence or a tensor of whole
    numbers, one per rank) a pair of those and an int32 tensor: how many came from each.
    """
    output, received = _autograd.apply(
        _autograd.Alltoall, tensor, _row_counts(splits), name, process_set
    )
    return output if splits is None else (output, received)


def alltoall_async(
    tensor: Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """Starts alltoall()."""

    def finish(result: tuple[Tensor, list[int]]) -> Any:
        output, counts = result
        return output if splits is None else (output, torch.tensor(counts, dtype=torch.int32))

    return mapped(_alltoall(False, tensor, splits, name, process_set), finish)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns once all ranks of the set have called it."""
    _ops.barrier(True, process_set).wait()


def join(device: int = -1) -> int:
    """Says that this rank has no more data; blocks until all have; returns who joined last.

    Meanwhile it takes part in the others' allreduces with zeros. `device` is accepted for Horovod
    scripts and has no effect on CPU tensors.
    """
    del device
    return _collectives.join(global_process_set)


__all__ = [
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
