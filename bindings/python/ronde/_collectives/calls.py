"""All collectives, over an adapter for one framework's tensors.

NumPy (`ronde`) and PyTorch (`ronde.torch`) share this code. Tensors are used in place where they
are contiguous; others are copied and copied back.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ronde import _core
from ronde._calls.argument_checks import (
    OP_NAMES,
    OPS,
    check,
    explained,
    is_process_set,
    is_whole,
    row_counts,
    several,
)
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Sum
from ronde._calls.targets import Layout, check_targets
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import ProcessSet, core_id_of, global_process_set
from ronde._job.runtime import rank, runtime

T = TypeVar("T")
R = TypeVar("R")

_kinds = _core.collectives()
ALLREDUCE = _kinds["allreduce"]
ALLGATHER = _kinds["allgather"]
BROADCAST = _kinds["broadcast"]
REDUCE_SCATTER = _kinds["reduce_scatter"]
ALLTOALL = _kinds["alltoall"]
REDUCE = _kinds["reduce"]
GATHER = _kinds["gather"]
SCATTER = _kinds["scatter"]
BARRIER = _kinds["barrier"]
SPARSE_ALLREDUCE = _kinds["sparse_allreduce"]
ANY_SOURCE = -1


def set_id(process_set: ProcessSet) -> int:
    """The core's id of a registered set. Raises InvalidArgumentError for any other."""
    try:
        identifier = core_id_of(process_set)
    except AttributeError:
        check(process_set=process_set)
        raise
    if identifier is None:
        why = process_set.lost or "call add_process_set() first"
        raise InvalidArgumentError(f"{process_set} is not registered; {why}")
    return identifier


class Call(NamedTuple):
    """The arguments of one collective besides its tensors. submit.cc reads them by their place.

    name: operations of the same name match; without one, the k-th unnamed of each rank match.
    scale: factors before and after a reduction. root: a rank of the job. priority: of operations
    that are ready together, the highest runs first. site: the "file:line" that errors name; the
    caller's by default. compression: a codec of the core, "none", or empty for the job's setting.
    weight: of this rank in an average; every rank gives one, or none does. program: a text on which
    ranks must agree too, at most 1,024 bytes; errors have it after "as part of". holds_finding:
    the caller follows values that are not finite itself, by Handle.judge().
    """

    name: str | None
    process_set: ProcessSet
    op: int = Sum
    scale: tuple[float, float] = (1.0, 1.0)
    root: int = -1
    priority: int = 0
    site: str = ""
    compression: str = ""
    weight: float | None = None
    program: str = ""
    holds_finding: bool = False


def refused(error: TypeError | InvalidArgumentError, call: Call) -> Exception:
    """The core's error, or one in the caller's terms, of a call that the core has refused.

    For an argument of a wrong type, an operation that is none, a rank that is outside of the set.
    """
    process_set = call.process_set
    if isinstance(error, TypeError):
        return explained(
            error,
            name=call.name,
            op=call.op,
            root_rank=call.root,
            prescale_factor=call.scale[0],
            postscale_factor=call.scale[1],
            weight=call.weight,
            process_set=process_set,
        )
    if call.op not in OPS.values():
        return InvalidArgumentError(f"op={call.op}; allowed: {OP_NAMES}")
    if not is_process_set(process_set) or process_set.included() is not False:
        return error
    return InvalidArgumentError(
        f"rank {rank()} is not in {process_set}: its collectives are for its members alone; see "
        "included()"
    )


class Adapter(Protocol[T]):
    """Access to one framework's tensors."""

    def contiguous(self, tensor: T) -> T:
        """The tensor itself where its memory can be used in place, else a contiguous copy."""

    def view(self, tensor: T) -> Any:
        """A contiguous tensor's memory, shape and element type, as the core takes them."""

    def memory(self, tensor: T) -> tuple[int, int]:
        """Address and bytes of a contiguous tensor."""

    def watch(self, tensors: Sequence[T]) -> Callable[[], None] | None:
        """A function that raises where a tensor lies in other memory by then.

        None where that cannot happen.
        """

    def layout(self, tensor: T) -> Layout | None:
        """The places of its elements; None where they are one after the other."""

    def empty_like(self, tensor: T) -> T:
        """A new contiguous tensor of the same shape and element type."""

    def adopt(self, buffer: Any, shape: Sequence[int], like: T) -> T:
        """A tensor over `buffer` (None: no elements), without a copy."""

    def assign(self, target: T, source: T) -> None:
        """Copies all elements of `source` into `target`."""

    def settle(self, tensors: Sequence[T | None]) -> Callable[[Any], None] | None:
        """A function that orders later use of these tensors after an operation's results.

        None for tensors in host memory: there is nothing to do.
        """


class Profiler(NamedTuple):
    """A framework's profiler, which shows operations.

    switch: its attribute _is_profiler_enabled is true while it runs.
    begin: begins an operation's event; arguments as _start()'s. The result's __exit__() ends it.
    """

    switch: Any
    begin: Callable[[int, Sequence[Any], Sequence[Any], Call], Any]


class Collectives(Generic[T]):
    """The collectives over one adapter.

    `wait`: the operation is complete when the call returns, which costs less than waiting later.
    Errors are those of the package; InvalidArgumentError arises before anything is sent.
    """

    def __init__(self, adapter: Adapter[T], profiler: Profiler | None = None) -> None:
        """Uses `adapter` for every tensor."""
        self._adapter = adapter
        self._profiler = profiler

    def view(self, tensor: T) -> Any:
        """A contiguous tensor's memory as the core takes it."""
        return self._adapter.view(tensor)

    def _start(
        self,
        kind: int,
        wait: bool,
        inputs: Sequence[T | None],
        outputs: Sequence[T | None],
        finish: Callable[[Any], R],
        call: Call,
        splits: Any = None,
        views: list[Any] | None = None,
    ) -> Handle[R]:
        view = self._adapter.view
        in_place = outputs is inputs
        settle = self._adapter.settle(inputs if in_place else [*inputs, *outputs])
        given = views or [None if t is None else view(t) for t in inputs]
        profiler, event = self._profiler, None
        if profiler is not None and profiler.switch._is_profiler_enabled:
            event = profiler.begin(kind, inputs, outputs, call)
        try:
            handle = _core.submit(
                runtime(),
                kind,
                set_id(call.process_set),
                given,
                given if in_place else [None if t is None else view(t) for t in outputs],
                inputs if in_place else (inputs, outputs),
                wait,
                call,
                splits,
            )
        except (TypeError, InvalidArgumentError) as error:
            raise refused(error, call) from None
        finally:
            if event is not None:
                event.__exit__(None, None, None)
        if settle is None:
            return handle.finish(finish)

        def settled(done: Any) -> R:
            settle(done)
            return finish(done)

        return handle.finish(settled)

    def _in_and_out(
        self, operation: str, tensors: Sequence[T], outputs: Sequence[T] | None
    ) -> tuple[list[T], list[T], Callable[[], list[T]]]:
        """Contiguous inputs and outputs, and a function that completes the caller's outputs."""
        adapter = self._adapter
        given = [adapter.contiguous(t) for t in tensors]
        if outputs is None:
            made = [adapter.empty_like(t) for t in given]
            return given, made, lambda: made
        if outputs is tensors and all(map(operator.is_, given, tensors)):
            return given, given, self._completed(given)
        wanted = list(outputs)
        if len(wanted) != len(given):
            raise InvalidArgumentError(
                f"{operation}: {len(given)} inputs, but {len(wanted)} outputs; give one for each"
            )
        # In place means that the copy of a non-contiguous tensor is both input and output.
        written = [
            g if o is t else adapter.contiguous(o) for t, g, o in zip(tensors, given, wanted)
        ]
        if not all(map(operator.is_, written, wanted)):
            check_targets(
                operation, [one for one in map(adapter.layout, wanted) if one is not None]
            )

        check = self._completed([o for o, w in zip(wanted, written) if o is w])

        def complete() -> list[T]:
            check()
            for target, source in zip(wanted, written):
                if target is not source:
                    adapter.assign(target, source)
            return wanted

        return given, written, complete

    def _completed(self, written: list[T]) -> Callable[[], list[T]]:
        """A function that returns the tensors, or raises where one was given other memory."""
        check = self._adapter.watch(written)
        if check is None:
            return lambda: written

        def complete() -> list[T]:
            check()
            return written

        return complete

    def _adopt(self, operation: Any, index: int, like: T) -> T:
        """The output that the operation allocated, as a tensor."""
        buffer, shape = operation.output(index)
        return self._adapter.adopt(buffer, shape, like)

    def allreduce(
        self, wait: bool, tensors: Sequence[T], outputs: Sequence[T] | None, call: Call
    ) -> Handle[list[T]]:
        """Combines each tensor over all ranks; several are one operation, all or none."""
        tensors = outputs if outputs is tensors else several(tensors)
        if not tensors:
            raise InvalidArgumentError("no tensors given")
        given, written, complete = self._in_and_out("allreduce", tensors, outputs)
        return self._start(ALLREDUCE, wait, given, written, lambda _: complete(), call)

    def reduce_gradients(
        self, gradients: _core.SentGradients, tensors: list[T], call: Call
    ) -> Handle[list[T]]:
        """Starts allreduce() in place of `tensors`, which are the gradients that were taken."""
        profiler, event = self._profiler, None
        if profiler is not None and profiler.switch._is_profiler_enabled:
            event = profiler.begin(ALLREDUCE, tensors, tensors, call)
        try:
            return _core.submit_gradients(
                runtime(), set_id(call.process_set), gradients, tensors, call
            )
        except InvalidArgumentError as error:
            raise refused(error, call) from None
        finally:
            if event is not None:
                event.__exit__(None, None, None)

    def reduce_in_place(
        self, tensors: list[T], call: Call, views: list[Any] | None = None
    ) -> Handle[list[T]]:
        """Starts allreduce() in place of tensors that are known to be valid and contiguous.

        For many small tensors: a check costs as much as the submission. views: the results of the
        adapter's view(), if known.
        """
        return self._start(ALLREDUCE, False, tensors, tensors, lambda _: tensors, call, views=views)

    def into(self, kind: str, tensor: T, output: T | None, call: Call) -> Handle[None]:
        """Starts a collective of contiguous tensors, by its name in the core.

        `output` has room for the result, which may be larger or smaller than `tensor`; None where
        this rank gets none.
        """
        return self._start(_kinds[kind], False, [tensor], [output], lambda _: None, call)

    def allocating(
        self, kind: str, wait: bool, tensors: Sequence[T], call: Call
    ) -> Handle[list[T]]:
        """Runs a collective that allocates its outputs, by its name in the core.

        "allgather" joins the ranks' tensors along the first dimension, which may differ between
        ranks. "reduce_scatter" combines them and returns this rank's chunk of rows; the first ranks
        get one more.
        """
        given = [self._adapter.contiguous(t) for t in tensors]

        def finish(operation: Any) -> list[T]:
            return [self._adopt(operation, i, t) for i, t in enumerate(given)]

        return self._start(_kinds[kind], wait, given, [None] * len(given), finish, call)

    def broadcast(
        self, wait: bool, tensors: Sequence[T], outputs: Sequence[T] | None, call: Call
    ) -> Handle[list[T]]:
        """Gives every rank the tensors of the call's root."""
        given, written, complete = self._in_and_out("broadcast", tensors, outputs)
        return self._start(BROADCAST, wait, given, written, lambda _: complete(), call)

    def alltoall(
        self, wait: bool, tensor: T, splits: Any, call: Call
    ) -> Handle[tuple[T, list[int]]]:
        """Sends splits[r] rows to member r, by default equal chunks; returns (rows, counts)."""
        given = self._adapter.contiguous(tensor)

        def finish(operation: Any) -> tuple[T, list[int]]:
            return self._adopt(operation, 0, given), operation.recv_splits

        sent = () if splits is None else row_counts(splits)
        return self._start(ALLTOALL, wait, [given], [None], finish, call, sent)

    def sparse_allreduce(
        self, wait: bool, values: T, indices: Any, rows: int, call: Call
    ) -> Handle[tuple[Any, T]]:
        """Adds up rows by their index; returns all different (indices, sums), ascending.

        indices: an array of int64, one for each row of `values`. rows: those of the whole tensor,
        which all indices are below; -1: not known.
        """
        given = self._adapter.contiguous(values)
        sent = np.append(indices, np.int64(rows))

        def finish(operation: Any) -> tuple[Any, T]:
            return operation.indices, self._adopt(operation, 0, given)

        return self._start(SPARSE_ALLREDUCE, wait, [given], [None], finish, call, sent)

    def reduce(self, wait: bool, tensor: T, call: Call) -> Handle[T | None]:
        """As allreduce, but only the root gets the result; the others get None."""
        given = self._adapter.contiguous(tensor)
        output = self._adapter.empty_like(given) if _is(call.root) else None
        return self._start(REDUCE, wait, [given], [output], lambda _: output, call)

    def gather(self, wait: bool, tensor: T, call: Call) -> Handle[T | None]:
        """As allgather, but only the root gets the result; the others get None."""
        given = self._adapter.contiguous(tensor)
        at_root = _is(call.root)

        def finish(operation: Any) -> T | None:
            return self._adopt(operation, 0, given) if at_root else None

        return self._start(GATHER, wait, [given], [None], finish, call)

    def scatter(self, wait: bool, tensor: T | None, output: T, call: Call) -> Handle[T]:
        """Fills `output` with this rank's chunk of the root's tensor, in order of rank."""
        given = None
        if tensor is not None and _is(call.root):
            given = self._adapter.contiguous(tensor)
        _, written, complete = self._in_and_out("scatter", [output], [output])
        return self._start(SCATTER, wait, [given], written, lambda _: complete()[0], call)

    def barrier(self, wait: bool, call: Call) -> Handle[None]:
        """Completes when all ranks of the set have called it."""
        return self._start(BARRIER, wait, [], [], lambda _: None, call)

    def send(self, tensor: T, to: int, tag: int) -> Handle[None]:
        """Sends a tensor's bytes to a rank of the job."""
        given: Any = self._adapter.contiguous(tensor)
        memory = self._adapter.memory(given)
        try:
            keep = (given, self.view(given))
            handle = _core.send(runtime(), to, tag, memory, keep, message_type(given.dtype))
        except TypeError as error:
            raise explained(error, to=to, tag=tag) from None
        return handle.finish(lambda _: None)

    def recv(self, output: T, source: int, tag: int) -> Handle[tuple[T, int]]:
        """Receives into `output`; returns it and the sender's rank."""
        _, (written,), complete = self._in_and_out("recv", [output], [output])
        used: Any = written
        memory = self._adapter.memory(used)
        try:
            keep = (used, self.view(used))
            kind = message_type(used.dtype)
            handle = _core.recv(runtime(), source, tag, memory, keep, kind)
        except TypeError as error:
            raise explained(error, source=source, tag=tag) from None
        return handle.finish(lambda done: (complete()[0], done.source))


def message_type(dtype: Any) -> str:
    """The type of a message, which both its ends compare; empty for bytes, which may be any."""
    text = str(dtype).rpartition("torch.")[2]
    return "" if text == "uint8" else text[:200]


def join(process_set: ProcessSet = global_process_set) -> int:
    """Joins: this rank has no more data. Returns the rank that joined last, once all have."""
    operation = _core.join(runtime(), set_id(process_set))
    operation.wait()
    return operation.last_joined


def _is(root: int) -> bool:
    return is_whole(root) and runtime().rank() == root
