"""Collectives on TensorFlow tensors, with the names and meaning of `horovod.tensorflow`.

They work in eager mode and inside `tf.function`, on tensors, variables and NumPy arrays of integers
of 8 to 64 bits, float16, bfloat16, float32, float64 or bool; collectives that only move data take
complex64 too. All can be differentiated. The gradient of
a collective is a collective, so all ranks must compute it. Errors derive from
ronde.Error (a RuntimeError) and from the tf.errors class of the same meaning.

Common arguments: operations of the same `name` match. Without it the place in the traced function
matches them; in eager mode the k-th unnamed operation of each rank matches the k-th of the others.
`op` is Sum, Average, Min, Max, Product or Adasum (allreduces of floating types of 16 bits or more),
and None means the operation that `average` selects: Average by default. `prescale_factor` and
`postscale_factor` multiply inputs and outputs. `process_set` limits the operation to some ranks.
`device_dense`, `device_sparse` and `ignore_name_scope` are accepted for Horovod scripts and have no
effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ronde import _horovod
from ronde._calls.argument_checks import several
from ronde._calls.reduce_ops import reduce_op
from ronde._collectives.calls import set_id
from ronde._compression.choice import resolved
from ronde._compression.rules import checked_one
from ronde._horovod import *
from ronde._horovod import Average
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._tensorflow import ops
from ronde._tensorflow.collectives import (
    check_sparse,
    check_unweighted,
    compressed,
    gather_named,
    name_of_call,
    reduce_named,
    reduce_slices,
)
from ronde._tensorflow.tracing import as_written
from ronde._tensorflow.types import carried, in_reals, numbers, row_counts, with_rows
from ronde._tensorflow.variables import broadcast_ as broadcast_  # Horovod has it here too
from ronde.common.basics import HorovodBasics
from ronde.tensorflow import _queries
from ronde.tensorflow._queries import *
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.util import check_num_rank_power_of_2 as check_num_rank_power_of_2
from ronde.tensorflow.util import (
    handle_average_backwards_compatibility as handle_average_backwards_compatibility,
)

if not TYPE_CHECKING:
    __all__ = [
        "allgather",
        "allreduce",
        "alltoall",
        "barrier",
        "broadcast",
        "check_num_rank_power_of_2",
        "grouped_allgather",
        "grouped_allreduce",
        "grouped_reducescatter",
        "handle_average_backwards_compatibility",
        "join",
        "reducescatter",
        *_horovod.__all__,
        *_queries.__all__,
    ]

_basics = HorovodBasics()  # Horovod's tests ask it


@as_written
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    weight: Any = None,
) -> Any:
    """Combines a tensor over all ranks, element by element; shapes and dtypes must agree.

    tf.IndexedSlices: slices of one index are summed or averaged over the ranks; the result has
    each index once. Other operations raise UnsupportedError (a NotImplementedError).
    weight: this rank's part in a weighted average, a number or a tensor of one:
    sum(weight * tensor) / sum(weight) over the ranks. It is the number of its samples where batches
    differ; not negative, 0 on some ranks only, for floating types. All ranks give one, or none.
    """
    del device_dense, device_sparse, ignore_name_scope
    op = reduce_op(average, op)
    scale = (prescale_factor, postscale_factor)
    if isinstance(tensor, tf.IndexedSlices):
        check_unweighted(weight)
        return reduce_slices(tensor, compression, op, scale, name, process_set)
    return _grouped_allreduce([tensor], compression, op, scale, name, process_set, weight)[0]


def _grouped_allreduce(
    tensors: Sequence[Any],
    compression: Any,
    op: int,
    scale: tuple[float, float],
    name: str | None,
    process_set: ProcessSet,
    weight: Any = None,
) -> list[Any]:
    return reduce_named(
        numbers(tensors, op),
        [name_of_call(name, "allreduce", set_id(process_set), tensors)],
        compression,
        op,
        scale,
        process_set,
        weight=weight,
    )


@as_written
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
    weight: Any = None,
) -> list[Any]:
    """allreduce() of several tensors as one operation: all or none. Returns a list.

    tf.IndexedSlices among them are summed as allreduce() does, each as an operation of its own.
    """
    del device_dense, device_sparse, ignore_name_scope
    op = reduce_op(average, op)
    scale = (prescale_factor, postscale_factor)
    tensors = several(tensors)
    if any(isinstance(t, tf.IndexedSlices) for t in tensors):
        check_sparse(op)  # before anything is sent
    results: list[Any] = [
        reduce_slices(t, compression, op, scale, name and f"{name}.{i}", process_set)
        if isinstance(t, tf.IndexedSlices)
        else None
        for i, t in enumerate(tensors)
    ]
    if any(r is not None for r in results):
        check_unweighted(weight)
    dense = [t for t in tensors if not isinstance(t, tf.IndexedSlices)]
    if dense:
        reduced = iter(_grouped_allreduce(dense, compression, op, scale, name, process_set, weight))
        results = [next(reduced) if r is None else r for r in results]
    return results


@as_written
def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Joins the tensors of all ranks along the first dimension, in order of rank.

    Ranks may have different first dimensions; the others must agree.
    """
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


@as_written
def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """allgather() of several tensors as one operation: all or none."""
    del ignore_name_scope
    return gather_named(several(tensors), name, process_set)


@as_written
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives every rank the tensor of `root_rank` (a rank of the job), as a new tensor.

    Every rank passes a tensor of the same shape and dtype.
    """
    del ignore_name_scope
    members = set_id(process_set)
    names = [name_of_call(name, "broadcast", members, [tensor])]
    return carried([tensor], lambda sent: ops.broadcast(sent, names, root_rank, members))[0]


@as_written
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Sends splits[r] rows to rank r of the set and joins the received rows, in order of rank.

    Without `splits` all chunks are equal. With them (integers, one for each rank) returns (tensor,
    rows received from each rank, int32).
    """
    del ignore_name_scope
    counts = tf.constant([], tf.int64) if splits is None else row_counts(splits)
    received: list[Any] = []
    members = set_id(process_set)
    submitted = name_of_call(name, "alltoall", members, [tensor])

    def move(sent: list[Any]) -> list[Any]:
        result, rows = ops.alltoall(sent[0], counts, submitted, members)
        received.append(rows)
        return [result]

    moved = carried(with_rows("alltoall", [tensor]), move)[0]
    return moved if splits is None else (moved, tf.cast(received[0], tf.int32))


@as_written
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combines a tensor over all ranks and returns this rank's chunk of its rows.

    If the rows do not divide evenly, the first ranks get one more each. Not for scalars.
    """
    del device_dense, ignore_name_scope
    scale = (prescale_factor, postscale_factor)
    return _grouped_reducescatter([tensor], compression, op, name, process_set, scale)[0]


@as_written
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """reducescatter() of several tensors as one operation: all or none."""
    del device_dense
    tensors = several(tensors)
    if not tensors:
        return []
    scale = (prescale_factor, postscale_factor)
    return _grouped_reducescatter(tensors, compression, op, None, process_set, scale)


def _grouped_reducescatter(
    tensors: Sequence[Any],
    compression: Any,
    op: int,
    name: str | None,
    process_set: ProcessSet,
    scale: tuple[float, float],
) -> list[Any]:
    members = set_id(process_set)
    names = [name_of_call(name, "reducescatter", members, tensors)]
    used = resolved(checked_one(compression))

    def reduce(reals: list[Any]) -> list[Any]:
        return compressed(
            reals, used, lambda sent: ops.reducescatter(sent, names, op, scale, members)
        )

    return in_reals(with_rows("reducescatter", numbers(tensors, op)), reduce)


@as_written
def join() -> Any:
    """Joins: this rank has no more data. Returns the rank that joined last, an int32 scalar.

    Until all have joined, this rank adds zeros to the other ranks' allreduces.
    """
    return ops.join(set_id(global_process_set))


@as_written
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Completes when all ranks of the set have called it."""
    ops.barrier(set_id(process_set))
