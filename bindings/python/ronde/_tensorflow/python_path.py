"""The operations without compiled kernels, under their names: arrays through tf.py_function.

Slower (copies, Python, one operation at a time), otherwise the same. In a graph the functions run
in the order of tracing, so that ranks cannot deadlock.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from ronde import _core
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Sum
from ronde._collectives import calls as _collectives
from ronde._collectives.calls import Call, Collectives
from ronde._collectives.on_arrays import ArrayAdapter
from ronde._errors import Error
from ronde._job.process_sets import ProcessSet
from ronde._job.runtime import rank, runtime
from ronde._tensorflow.errors import both_kinds, mark
from ronde._tensorflow.program import Texts

# The core's element type codes, by NumPy's names; bfloat16 is NumPy's through ml_dtypes.
_CODES = _core.dtypes()
# Collectives whose results are like their tensors. The operations of others allocate them.
_WITH_OUTPUTS = ("allreduce", "broadcast")
# The core's collectives, by the names of their graph ops: "ronde_reducescatter".
_KINDS = {f"ronde_{kind.replace('_', '')}": kind for kind in _core.collectives()}


class _Adapter(ArrayAdapter):
    def view(self, tensor: Any) -> Any:
        return tensor.ctypes.data, tensor.shape, _CODES[tensor.dtype.name]


# As those of the library of compiled operations.
is_compiled = False
programs = Texts()
threads = SimpleNamespace(look=lambda: None)
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


@functools.cache
def _each(kind: str) -> Callable[..., list[tf.Tensor]]:
    """The graph op of this collective of the core, which takes and gives a list of tensors."""
    likes = kind in _WITH_OUTPUTS

    def run(
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
        scale = (float(prescale), float(postscale))

        def start(of: Any, arrays: Any, call: Call, priority: int = 0) -> Handle[list[Any]]:
            call = call._replace(op=op, scale=scale, root=root, priority=priority)
            call = call._replace(site=site, compression=compression)
            if likes:
                return getattr(of, kind)(False, arrays, None, call)  # type: ignore[no-any-return]
            return of.allocating(kind, False, arrays, call)  # type: ignore[no-any-return]

        shapes = [t.shape if likes else _rows_unknown(t) for t in tensors]
        return _run(start, tensors, shapes, names, set, program, priorities, weight)

    return run


def __getattr__(name: str) -> Callable[..., list[tf.Tensor]]:
    """As the graph op of this name, of a collective that has no function below."""
    kind = _KINDS.get(name.replace("_weighted_", "_"))
    if kind is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _each(kind)


def ronde_alltoall(
    tensor: tf.Tensor, splits: tf.Tensor, names: Any, set: int, program: int, site: str
) -> list[tf.Tensor]:
    """As the graph op."""

    def work(arrays: list[Any]) -> list[Any]:
        call, splits = _call_of(names[0], set, program), arrays[1].tolist()
        handle = _OPERATIONS.alltoall(True, arrays[0], splits, call)
        rows, received = handle.wait()
        return [rows, np.array(received, np.int64)]

    shapes = [_rows_unknown(tensor), tf.TensorShape([None])]
    return _call(work, [tensor, splits], [tensor.dtype, tf.int64], shapes)


def ronde_sparse_allreduce(
    values: tf.Tensor,
    indices: tf.Tensor,
    rows: tf.Tensor,
    names: Any,
    set: int,
    program: int,
    site: str,
    op: int,
    prescale: str,
    postscale: str,
) -> list[tf.Tensor]:
    """As the graph op."""

    def work(arrays: list[Any]) -> list[Any]:
        scale = (float(prescale), float(postscale))
        call = _call_of(names[0], set, program)._replace(op=op, scale=scale, site=site)
        places, sums = _OPERATIONS.sparse_allreduce(
            True, arrays[0], arrays[1], int(arrays[2]), call
        ).wait()
        return [sums, places]

    shapes = [_rows_unknown(values), tf.TensorShape([None])]
    return _call(work, [values, indices, rows], [values.dtype, tf.int64], shapes)


def _number(find: Callable[[], int]) -> tf.Tensor:
    """An int32 scalar of what `find` returns when the graph runs."""
    return _call(lambda _: [np.int32(find())], [], [tf.int32], [tf.TensorShape([])])[0]


def ronde_barrier(names: Any, set: int, program: int, site: str) -> None:
    """As the graph op."""

    def wait() -> int:
        _OPERATIONS.barrier(True, _call_of(names[0], set, program)).wait()
        return 0

    _number(wait)


def ronde_join(names: Any, set: int, site: str) -> tf.Tensor:
    """As the graph op."""
    return _number(lambda: _collectives.join(_members(set)))


def ronde_query(what: str, set: int, name: str | None) -> tf.Tensor:
    """As the graph op."""

    def answer() -> int:
        members = runtime().process_set_ranks(set)
        answers = {"size": len(members), "included": int(rank() in members)}
        return int(answers[what] if what in answers else getattr(_core.Runtime, what)(runtime()))

    return _number(answer)
