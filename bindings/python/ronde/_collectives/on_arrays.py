"""Collectives on NumPy's arrays, and other libraries': the functions of the package `ronde`.

Arrays may have any shape and be of integers of 8 to 64 bits, float16, float32, float64, bool,
complex64 or complex128, which can be summed and averaged (bfloat16 in host memory: use
ronde.torch). C-contiguous ones are used in place; they must not change until the operation has
ended. Arrays that offer DLPack or
`__cuda_array_interface__` are used in place, in host or CUDA memory: see arrays.py. Without
`out` results are NumPy arrays, or DeviceArrays in CUDA memory. Every function raises subclasses of
`ronde.Error`; each `x_async` returns a Handle whose wait() returns the result of `x`.

Common arguments: operations of the same `name` match (without it the k-th unnamed one of each rank
match); `prescale_factor` and `postscale_factor` multiply inputs and outputs; `process_set`
limits the operation to some ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ronde import _core
from ronde._calls.argument_checks import checked_shape, several, shown
from ronde._calls.described import described
from ronde._calls.forms import forms
from ronde._calls.handle import Handle, first
from ronde._calls.reduce_ops import Average
from ronde._calls.targets import Layout
from ronde._collectives import calls
from ronde._collectives.array_compression import Compression, is_floating
from ronde._collectives.arrays import DeviceArray, adapted, writable
from ronde._collectives.calls import ANY_SOURCE, Call
from ronde._compression.choice import compressed, resolved, started, wire_for
from ronde._compression.rules import checked_one
from ronde._errors import ArgumentTypeError, InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import runtime

Array = NDArray[Any]
AnyArray = Any  # NumPy's or another library's
R = TypeVar("R")

__all__ = [
    "DeviceArray",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_async",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_async",
    "empty",
    "gather",
    "gather_async",
    "grouped_allreduce",
    "grouped_allreduce_async",
    "join",
    "poll",
    "recv",
    "recv_async",
    "reduce",
    "reduce_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "scatter",
    "scatter_async",
    "send",
    "send_async",
    "sparse_allreduce",
    "sparse_allreduce_async",
    "synchronize",
]


class ArrayAdapter:
    """NumPy's arrays, and DeviceArrays."""

    def contiguous(self, tensor: Any) -> Any:
        array = adapted(tensor)
        if isinstance(array, DeviceArray):
            if not array.has_memory:
                raise InvalidArgumentError("a result is used before its operation has ended")
            return array
        flags = array.flags
        return array if flags.c_contiguous and flags.aligned else array.copy(order="C")

    def view(self, tensor: Any) -> Any:
        if not isinstance(tensor, DeviceArray):
            return tensor
        return tensor.view() if tensor.has_memory else None

    def memory(self, tensor: Any) -> tuple[int, int]:
        if isinstance(tensor, DeviceArray):
            raise InvalidArgumentError("send and recv take arrays in host memory only")
        if tensor.dtype.hasobject:
            raise InvalidArgumentError(
                f"send and recv: arrays of dtype {tensor.dtype} hold objects of this process; "
                "allowed: numbers"
            )
        return tensor.ctypes.data, tensor.nbytes

    def watch(self, tensors: Sequence[Any]) -> None:
        return None

    def layout(self, tensor: Any) -> Layout | None:
        memory = adapted(tensor)
        if isinstance(memory, DeviceArray):
            return None
        return Layout(memory.ctypes.data, memory.shape, memory.strides, memory.itemsize)

    def empty_like(self, tensor: Any) -> Any:
        if isinstance(tensor, DeviceArray):
            return tensor.like()
        return np.empty_like(tensor, order="C", subok=False)

    def adopt(self, buffer: Any, shape: Sequence[int], like: Any) -> Any:
        if isinstance(like, DeviceArray):
            made = like.like(shape)
            made.fill(buffer)
            return made
        if like.dtype.kind == "c":
            shape = shape[:-1]  # of pairs
        if buffer is None:
            return np.empty(shape, like.dtype)
        return np.frombuffer(buffer, like.dtype).reshape(shape)

    def assign(self, target: Any, source: Any) -> None:
        memory = adapted(target)
        if isinstance(memory, DeviceArray) or memory.ctypes.data == source.ctypes.data:
            return  # another library's array, used in place
        np.copyto(memory, source)

    def settle(self, tensors: Sequence[Any]) -> Callable[[Any], None] | None:
        streams = {tensor.stream for tensor in tensors if isinstance(tensor, DeviceArray)}
        if not streams:
            return None
        if len(streams) > 1:
            named = ", ".join(map(hex, sorted(streams)))
            raise InvalidArgumentError(
                f"the arrays of one operation are on several CUDA streams ({named}), one of which "
                "would not be waited for"
            )
        (stream,) = streams

        def settle(operation: Any) -> None:
            operation.order_after(stream)
            for index, output in enumerate(tensors[len(tensors) // 2 :]):
                if isinstance(output, DeviceArray) and not output.has_memory:
                    output.fill(operation.output(index)[0])

        return settle


_ops = calls.Collectives[Any](ArrayAdapter())


def _one(operation: str, array: AnyArray | None) -> list[Any] | None:
    return None if array is None else [writable(operation, array)]


@described
def empty(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> Array:
    """A new array in memory that the ranks of this host share, where they can.

    Collectives need no copy of it: fill it in place, and pass it as input, output or both. The last
    array that views the memory frees it, also after shutdown(). Call after init().
    """
    extents = checked_shape(shape)
    kind = np.dtype(dtype)
    if kind.hasobject or kind.itemsize == 0:
        raise InvalidArgumentError(f"dtype={kind} has no numbers in memory; allowed: numbers")
    count = math.prod(extents)
    buffer: Any = _core.allocate(runtime(), max(count, 1) * kind.itemsize)
    return np.frombuffer(buffer, kind)[:count].reshape(extents)


@described
def poll(handle: Handle[Any]) -> bool:
    """True if the operation has ended; never blocks."""
    return _handle(handle).done()


@described
def synchronize(handle: Handle[R]) -> R:
    """Waits for an operation and returns its result; the same as handle.wait()."""
    return handle.wait() if type(handle) is Handle else _handle(handle).wait()


def _handle(given: Handle[R]) -> Handle[R]:
    if not isinstance(given, Handle):
        raise InvalidArgumentError(
            f"a handle of an asynchronous operation is needed, not {type(given).__name__}"
        )
    return given


def _reduce_all(
    wait: bool, arrays: Sequence[AnyArray], outputs: Any, call: Call, compression: Any
) -> Handle[list[Array]]:
    """allreduce() of several arrays, each of which travels as `compression` says."""
    if compression is Compression.none:
        return _ops.allreduce(wait, arrays, outputs, call)
    checked_one(compression)
    plain: list[Any] = [adapted(array) for array in arrays]
    wires = {wire_for(compression, is_floating(array), array.dtype) for array in plain}
    wire = wires.pop() if len(wires) == 1 else ""
    if wire or resolved(compression) is Compression.none:
        return _ops.allreduce(wait, arrays, outputs, call._replace(compression=wire))
    for array, output in zip(plain, outputs or ()):
        _check_alike(array, adapted(output))
    handle = compressed(
        plain, resolved(compression), lambda sent: _ops.allreduce(wait, sent, None, call)
    )
    return handle if outputs is None else handle.then(lambda made: _copied(made, outputs))


def _check_alike(array: Any, output: Any) -> None:
    """Raises InvalidArgumentError unless an output has the shape and dtype of its input."""
    if (output.shape, output.dtype) != (array.shape, array.dtype):
        raise InvalidArgumentError(
            f"allreduce: out has shape {list(output.shape)}, dtype {output.dtype}, but the input "
            f"has shape {list(array.shape)}, dtype {array.dtype}; give an array of the same shape "
            "and dtype"
        )


def _copied(results: Sequence[Array], outputs: Sequence[AnyArray]) -> list[Array]:
    for result, output in zip(results, outputs):
        target: Any = adapted(output)
        np.copyto(target, result)
    return list(outputs)


def _allreduce(
    wait: bool,
    array: AnyArray,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    out: AnyArray | None = None,
    weight: float | None = None,
    compression: Any = Compression.none,
) -> Handle[Array]:
    """Combines the arrays of all ranks, element by element; all must have the same shape and dtype.

    op: Sum, Average, Min, Max, Product; on integers BitAnd, BitOr, BitXor; on floating types of 16
    bits or more Adasum, which combines whole arrays. out: where to put the result (may be `array`
    itself); a new array by default. All ranks get the same result. weight:
    this rank's part in a weighted average, sum(weight * array) / sum(weight) over the ranks: the
    number of its samples where batches differ. Not negative; 0 on some ranks only; for floating
    types. All ranks give one, or none. compression: a codec of ronde.Compression, or its text, in
    which floating arrays travel; its residual is added to the next array of the same name.
    """
    call = Call(name, process_set, op, (prescale_factor, postscale_factor), weight=weight)
    return first(_reduce_all(wait, [array], _one("allreduce", out), call, compression))


allreduce, allreduce_async = forms(_allreduce)


def _grouped_allreduce(
    wait: bool,
    arrays: Sequence[AnyArray],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    out: Sequence[AnyArray] | None = None,
    weight: float | None = None,
    compression: Any = Compression.none,
) -> Handle[list[Array]]:
    """allreduce() of several arrays as one operation: all or none. Returns a list."""
    call = Call(name, process_set, op, (prescale_factor, postscale_factor), weight=weight)
    outputs: Sequence[AnyArray] | None = None
    if out is not None:
        outputs = [
            writable("allreduce", array) for array in several(out, "out must be a list of arrays")
        ]
    if out is arrays:
        outputs = arrays
    return _reduce_all(wait, arrays, outputs, call, compression)


grouped_allreduce, grouped_allreduce_async = forms(_grouped_allreduce)


def _allocating(
    kind: str, wait: bool, array: AnyArray, call: Call, compression: Any
) -> Handle[Array]:
    given: Any = array if compression is Compression.none else adapted(array)
    return first(
        started(
            [given],
            compression,
            call,
            lambda by, one: wire_for(by, is_floating(one), one.dtype),
            lambda sent, by: _ops.allocating(kind, wait, sent, by),
        )
    )


def _allgather(
    wait: bool,
    array: AnyArray,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    compression: Any = Compression.none,
) -> Handle[Array]:
    """Joins the arrays of all ranks along the first dimension, in order of rank.

    First extents may differ between ranks; the others must agree. compression: fp16, bf16, int8,
    int4 or auto, in which floating arrays travel; all ranks get the same bits, this one too.
    """
    return _allocating("allgather", wait, array, Call(name, process_set), compression)


allgather, allgather_async = forms(_allgather)


def _broadcast(
    wait: bool,
    array: AnyArray,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    out: AnyArray | None = None,
) -> Handle[Array]:
    """Gives every rank the array of `root_rank` (a rank of the job).

    Every rank passes an array of the same shape and dtype. out: as for allreduce().
    """
    call = Call(name, process_set, root=root_rank)
    return first(_ops.broadcast(wait, [array], _one("broadcast", out), call))


broadcast, broadcast_async = forms(_broadcast)


def _reduce_scatter(
    wait: bool,
    array: AnyArray,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: Any = Compression.none,
) -> Handle[Array]:
    """Combines the arrays of all ranks and returns this rank's chunk of the rows.

    If the rows do not divide evenly, the first ranks get one more each. compression: fp16, bf16,
    int8, int4 or auto, in which floating arrays travel; its residual is added to the next array of
    the same name.
    """
    call = Call(name, process_set, op, (prescale_factor, postscale_factor))
    return _allocating("reduce_scatter", wait, array, call, compression)


reduce_scatter, reduce_scatter_async = forms(_reduce_scatter)


def _alltoall(
    wait: bool,
    array: AnyArray,
    splits: Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Array, list[int]]]:
    """Sends splits[r] rows of `array` to rank r, in order; equal chunks by default.

    Returns (the received rows in order of sender, the number from each).
    """
    return _ops.alltoall(wait, array, splits, Call(name, process_set))


alltoall, alltoall_async = forms(_alltoall)


def _sparse_allreduce(
    wait: bool,
    indices: Sequence[int] | Array,
    values: AnyArray,
    rows: int | None = None,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Array, Array]]:
    """Sums (or averages) rows of equal index over the ranks: values[i] is row indices[i].

    Indices may repeat, differ between ranks, or be none; they are below `rows`, where it is given.
    Returns (the different indices, ascending; their sums), the same on all ranks.
    """
    places = np.asarray(indices)
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise ArgumentTypeError(f"indices must be a list of whole numbers, not {shown(indices)}")
    call = Call(name, process_set, op, (prescale_factor, postscale_factor))
    limit = -1 if rows is None else rows
    return _ops.sparse_allreduce(wait, values, places.astype(np.int64), limit, call)


sparse_allreduce, sparse_allreduce_async = forms(_sparse_allreduce)


def _reduce(
    wait: bool,
    array: AnyArray,
    root_rank: int,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array | None]:
    """As allreduce(), but only `root_rank` gets the result; the others get None."""
    call = Call(name, process_set, op, (prescale_factor, postscale_factor), root_rank)
    return _ops.reduce(wait, array, call)


reduce, reduce_async = forms(_reduce)


def _gather(
    wait: bool,
    array: AnyArray,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array | None]:
    """As allgather(), but only `root_rank` gets the result; the others get None."""
    return _ops.gather(wait, array, Call(name, process_set, root=root_rank))


gather, gather_async = forms(_gather)


def _scatter(
    wait: bool,
    array: AnyArray | None,
    out: AnyArray,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Fills `out` with this rank's chunk of the root's array, and returns it.

    `array`, needed at the root only, has one chunk of out's shape for each rank, in order of rank.
    """
    return _ops.scatter(
        wait, array, writable("scatter", out), Call(name, process_set, root=root_rank)
    )


scatter, scatter_async = forms(_scatter)


@described
def send_async(array: AnyArray, to: int, tag: int = 0) -> Handle[None]:
    """Starts send()."""
    return _ops.send(array, to, tag)


@described
def send(array: AnyArray, to: int, tag: int = 0) -> None:
    """Sends an array to rank `to`; returns when `array` may be changed.

    The array that receives it has the same dtype, or one of the two has uint8: plain bytes.
    """
    send_async(array, to, tag).wait()


@described
def recv_async(out: AnyArray, source: int = ANY_SOURCE, tag: int = 0) -> Handle[tuple[Array, int]]:
    """Starts recv()."""
    return _ops.recv(writable("recv", out), source, tag)


@described
def recv(out: AnyArray, source: int = ANY_SOURCE, tag: int = 0) -> tuple[Array, int]:
    """Receives into `out` the next message with `tag`; returns it and the sender's rank.

    A message longer than `out`, or of another dtype, is an error; a shorter one leaves the rest of
    `out` as it was.
    """
    return recv_async(out, source, tag).wait()


@described
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns once all ranks of the set have called it."""
    _ops.barrier(True, Call(None, process_set)).wait()


@described
def join(process_set: ProcessSet = global_process_set) -> int:
    """Joins: this rank has no more data. Blocks until all ranks have joined; returns the last.

    Until then this rank adds zeros to the other ranks' allreduces.
    """
    return calls.join(process_set)
