"""The collectives that gradients and variables are sent by, for public functions and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ronde._calls.argument_checks import check
from ronde._calls.reduce_ops import Average, Sum
from ronde._codecs import NoneCompressor
from ronde._collectives.calls import set_id
from ronde._compression.choice import for_values, resolved, wire_for
from ronde._compression.rules import checked_one
from ronde._errors import UnsupportedError
from ronde._job.process_sets import ProcessSet
from ronde._membership import epochs
from ronde._tensorflow import names as _names
from ronde._tensorflow import ops
from ronde._tensorflow.types import carried, in_reals


def name_of_call(name: str | None, what: str, members: int, tensors: Sequence[Any] = ()) -> str:
    """The operation's name: the given one, one by the place in a graph, or none."""
    check(name=name)
    if name:
        return _names.given(name, members)
    if tf.executing_eagerly():
        return ""
    return _names.in_graph(_names.of_tensors(what, tensors), members)


def compressed(
    tensors: Sequence[Any], compression: Any, run: Callable[[list[Any]], Sequence[Any]]
) -> list[Any]:
    """Compresses the tensors, calls `run` with them, and decompresses the result."""
    pairs = [compression.compress(tensor) for tensor in tensors]
    results = run([tensor for tensor, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs)]


def reduce_named(
    tensors: Sequence[Any],
    names: Sequence[str],
    compression: Any,
    op: int,
    scale: tuple[float, float],
    process_set: ProcessSet,
    priorities: Sequence[int] = (),
    program: str = "",
    weight: Any = None,
) -> list[Any]:
    """allreduce() of dense tensors as operations of these names, see ops."""
    members = set_id(process_set)
    checked_one(compression)

    def reduce(reals: list[Any]) -> list[Any]:
        return _reduce(reals, names, compression, op, scale, members, priorities, program, weight)

    return in_reals(tensors, reduce)


def _reduce(
    tensors: Sequence[Any],
    names: Sequence[str],
    compression: Any,
    op: int,
    scale: tuple[float, float],
    members: int,
    priorities: Sequence[int],
    program: str,
    weight: Any,
) -> list[Any]:
    wires = {wire_for(compression, bool(t.dtype.is_floating), t.dtype) for t in tensors}
    wire = wires.pop() if len(wires) == 1 else ""
    return compressed(
        tensors,
        NoneCompressor if wire else resolved(compression),
        lambda sent: ops.allreduce(
            sent, names, op, scale, members, wire, priorities, program, weight
        ),
    )


def gather_named(tensors: Sequence[Any], name: str | None, process_set: ProcessSet) -> list[Any]:
    """allgather() of several tensors as one operation."""
    members = set_id(process_set)
    names = [name_of_call(name, "allgather", members, tensors)]
    return carried(tensors, lambda sent: ops.allgather(sent, names, members), of_scalar=[1])


def reduce_slices(
    slices: Any,
    compression: Any,
    op: int,
    scale: tuple[float, float],
    name: str | None,
    process_set: ProcessSet,
) -> Any:
    """allreduce() of tf.IndexedSlices: values of one index are added up, indices ascend."""
    check_sparse(op)
    compression = for_values(compression)
    values, context = compression.compress(slices.values)
    # The quotients of integers are floating point.
    divides = op == Average and not (values.dtype.is_floating or values.dtype.is_complex)
    members = set_id(process_set)
    name = name_of_call(name, "sparse_allreduce", members, [values])
    shape = slices.dense_shape
    given = tf.convert_to_tensor(slices.indices)
    rows = tf.constant(-1, tf.int64) if shape is None else tf.cast(shape[0], tf.int64)
    indices = tf.cast(given, tf.int64)
    places: list[Any] = []

    def reduce(reals: list[Any]) -> list[Any]:
        sent_op = Sum if divides else op
        sums, found = ops.sparse_allreduce(reals[0], indices, rows, name, sent_op, scale, members)
        places.append(found)
        return [sums]

    (sums,) = in_reals([values], reduce)
    sums = compression.decompress(sums, context)
    if divides:
        sums = divided(sums, process_set)
    return tf.IndexedSlices(sums, tf.cast(places[0], given.dtype), dense_shape=shape)


def check_sparse(op: int) -> None:
    """Raises UnsupportedError for operations that tf.IndexedSlices do not have."""
    if op not in (Sum, Average):
        raise UnsupportedError(
            "tf.IndexedSlices can be summed and averaged only: pass op=Sum or op=Average, or make "
            "them dense by tf.convert_to_tensor() (sparse_as_dense=True in an optimizer or a tape)"
        )


def divided(tensor: Any, process_set: ProcessSet) -> Any:
    """The tensor, divided by the ranks of the set; the quotients of integers are floating point.

    Graphs of an elastic job are traced once, and outlive changes of its ranks.
    """
    in_elastic_graph = epochs.available() and not tf.executing_eagerly()
    ranks = (
        ops.query("size", set_id(process_set), None)
        if in_elastic_graph
        else process_set.size() or 1
    )
    return tensor / tf.cast(ranks, tensor.dtype)


def check_unweighted(weight: Any) -> None:
    """Raises UnsupportedError for a weight of tf.IndexedSlices."""
    if weight is not None:
        raise UnsupportedError("tf.IndexedSlices take no weight; make them dense")
