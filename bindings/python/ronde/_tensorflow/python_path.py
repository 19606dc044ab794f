"""The operations without compiled kernels: NumPy arrays through tf.py_function.

Slower (copies, Python, one operation at a time), otherwise the same. In a graph the functions run
in the order of tracing, so that ranks cannot deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ronde import _core
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Sum
from ronde._collectives import calls as _collectives
from ronde._collectives.calls import Call, Collectives
from ronde._errors import Error
from ronde._job.process_sets import ProcessSet
from ronde._job.runtime import rank, runtime
from ronde._tensorflow.errors import both_kinds, mark
from ronde._tensorflow.program import Texts

# The core's element type codes, by NumPy's names; bfloat16 is NumPy's through ml_dtypes.
_CODES = _core.dtypes()
# Collectives whose results are like their tensors. The operations of others allocate them.
_WITH_OUTPUTS = ("allreduce", "broadcast")


class _Adapter:
    def contiguous(self, tensor: Any) -> Any:
        return np.ascontiguousarray(tensor).reshape(np.shape(tensor))

    def view(self, tensor: Any) -> Any:
        return tensor.ctypes.data, tensor.shape, _CODES[tensor.dtype.name]

    def memory(self, tensor: Any) -> tuple[int, int]:
        return tensor.ctypes.data, tensor.nbytes

    def watch(self, tensors: Sequence[Any]) -> None:
        return None

    def layout(self, tensor: Any) -> None:
        """None: results are written to new arrays."""

    def empty_like(self, tensor: Any) -> Any:
        return np.empty(tensor.shape, tensor.dtype)

    def adopt(self, buffer: Any, shape: Sequence[int], like: Any) -> Any:
        if buffer is None:
            return np.empty(shape, like.dtype)
        return np.frombuffer(buffer, np.uint8).view(like.dtype).reshape(shape)

    def assign(self, target: Any, source: Any) -> None:
        target[...] = source

    def settle(self, tensors: Sequence[Any]) -> None:
        """Does nothing: host memory is ready when the operation is done."""


programs = Texts()


_OPERATIONS: Collectives[Any] = Collectives(_Adapter())


def _call_of(name: str, set_id: int, program: int, weight: float | None = None) -> Call:
    """One call of a running function."""
    text = programs.text(program, set_id)
    return Call(name, _members(set_id), weight=weight, program=text)


def _members(set_id: int) -> ProcessSet:
    """The process set that has this id in the core, for Collectives."""
    found = ProcessSet(runtime().process_set_ranks(set_id))
    found.process_set_id = runtime().process_set_number(set_id)
    found.core_id = set_id
    return found


def _call(
    work: Callable[[list[Any]], Sequence[Any]],
    tensors: Sequence[tf.Tensor],
    types: Sequence[tf.DType],
    shapes: Sequence[tf.TensorShape],
) -> list[tf.Tensor]:
    """Runs `work` on arrays: now in eager mode, else when the graph runs."""

    def on_arrays(*arrays: Any) -> list[Any]:
        return [np.asarray(result) for result in work([a.numpy() for a in arrays])]

    if tf.executing_eagerly():
        try:
            results = on_arrays(*tensors)
        except Error as error:
            raise both_kinds(error) from None
        return [tf.constant(a, dtype=t) for a, t in zip(results, types)]

    def in_graph(*arrays: Any) -> list[Any]:
        try:
            return on_arrays(*arrays)
        except Error as error:
            raise mark(error) from None

    results = tf.py_function(in_graph, list(tensors), list(types))
    for result, shape in zip(results, shapes):
        result.set_shape(shape)
    return list(results)


def _rows_unknown(tensor: tf.Tensor) -> tf.TensorShape:
    shape = tensor.shape
    return tf.TensorShape([None]).concatenate(shape[1:]) if shape.rank else tf.TensorShape(None)


def _run(
    start: Callable[..., Handle[list[Any]]],
    tensors: Sequence[tf.Tensor],
    shapes: Sequence[tf.TensorShape],
    names: Sequence[str],
    set: int,
    program: int,
    details: Sequence[Any] = (),
    weight: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """Starts one operation for all tensors, or one for each name, then waits for all.

    Calls start(collectives, arrays, call). details: a further argument of it for each name.
    weight: the value of Call.weight.
    """

    def work(arrays: list[Any]) -> list[Any]:
        given = None
        if weight is not None:
            *arrays, last = arrays
            given = float(last)
        parts = [arrays] if len(names) == 1 else [[array] for array in arrays]
        calls = [
            (_OPERATIONS, part, _call_of(name, set, program, given))
            for part, name in zip(parts, names)
        ]
        more = zip(details) if details else [()] * len(calls)
        handles = [start(*call, *detail) for call, detail in zip(calls, more)]
        results, failed = [], None
        for handle in handles:
            try:
                results += handle.wait()
            except Error as error:  # the other operations still use the arrays: wait for them too
                failed = failed or error
        if failed is not None:
            raise failed
        return results

    types = [t.dtype for t in tensors]
    return _call(work, tensors if weight is None else [*tensors, weight], types, shapes)


def on_each(
    kind: str,
    tensors: Sequence[tf.Tensor],
    names: Sequence[str],
    set: int,
    site: str,
    program: int,
    op: int = Sum,
    prescale: str = "1",
    postscale: str = "1",
    root: int = -1,
    compression: str = "",
    priorities: Sequence[int] = (),
    weight: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """As the graph op of this collective, which takes and gives a list of tensors.

    kind: the name in the core. Without alltoall, barrier and join.
    """
    scale = (float(prescale), float(postscale))

    def start(of: Any, arrays: Any, call: Call, priority: int = 0) -> Handle[list[Any]]:
        call = call._replace(op=op, scale=scale, root=root, priority=priority)
        call = call._replace(site=site, compression=compression)
        if kind in _WITH_OUTPUTS:
            return getattr(of, kind)(False, arrays, None, call)  # type: ignore[no-any-return]
        return of.allocating(kind, False, arrays, call)  # type: ignore[no-any-return]

    shapes = [t.shape if kind in _WITH_OUTPUTS else _rows_unknown(t) for t in tensors]
    return _run(start, tensors, shapes, names, set, program, priorities, weight)


def alltoall(
    tensor: tf.Tensor, splits: tf.Tensor, names: Any, set: int, program: int, site: str
) -> list[tf.Tensor]:
    """As the graph op RondeAlltoall."""

    def work(arrays: list[Any]) -> list[Any]:
        call, splits = _call_of(names[0], set, program), arrays[1].tolist()
        handle = _OPERATIONS.alltoall(True, arrays[0], splits, call)
        rows, received = handle.wait()
        return [rows, np.array(received, np.int64)]

    shapes = [_rows_unknown(tensor), tf.TensorShape([None])]
    return _call(work, [tensor, splits], [tensor.dtype, tf.int64], shapes)


def barrier(names: Any, set: int, program: int, site: str) -> None:
    """As the graph op RondeBarrier."""

    def work(_: list[Any]) -> list[Any]:
        _OPERATIONS.barrier(True, _call_of(names[0], set, program)).wait()
        return [np.int32(0)]

    _call(work, [], [tf.int32], [tf.TensorShape([])])


def join(names: Any, set: int, site: str) -> tf.Tensor:
    """As the graph op RondeJoin."""
    return _call(
        lambda _: [np.int32(_collectives.join(_members(set)))],
        [],
        [tf.int32],
        [tf.TensorShape([])],
    )[0]


def query(what: str, set: int) -> tf.Tensor:
    """As the graph op RondeQuery."""

    def answer(_: list[Any]) -> list[Any]:
        members = runtime().process_set_ranks(set)
        answers = {"size": len(members), "included": int(rank() in members)}
        found = answers[what] if what in answers else getattr(_core.Runtime, what)(runtime())
        return [np.int32(found)]

    return _call(answer, [], [tf.int32], [tf.TensorShape([])])[0]
