"""Operations in flight, with torch.distributed's interface."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.futures import Future

from ronde._errors import Error, InterruptedError, TimeoutError, UnsupportedError

Tensors = list[torch.Tensor]
_in_callback = threading.local()
_LATE_S = 0.5  # time in which a backward pass completes its futures without a thread
T = TypeVar("T")
S = TypeVar("S")


def name_in_callback(call: str) -> str:
    """The name of the operation that a future's callback starts; "" outside of callbacks.

    Ranks run a callback at different times, so its operations cannot be numbered by call. The k-th
    operation of an operation's callbacks has the same name on all ranks. Raises UnsupportedError in
    callbacks of messages, which ranks do not number alike.
    """
    work: Work | None = getattr(_in_callback, "work", None)
    if work is None:
        return ""
    if not work._identity:
        raise UnsupportedError(
            f"{call}: a callback of a message's future cannot start operations, as ranks would "
            "start them in different orders; start them after wait()"
        )
    work._children += 1
    return f"{work._identity}.{work._children}"


def _ends_backward() -> bool:
    """True if autograd's engine in this thread runs the callbacks at the end of backward.

    DDP submits there in the first backward of a static graph.
    """
    if torch._C._current_graph_task_id() != -1:
        return False
    frame = sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_name != "_engine_run_backward":
        frame = frame.f_back
    return frame is not None


class Work(dist.Work):
    """One operation in flight, which keeps its tensors alive until it has ended.

    Threads: any; several may wait.
    """

    def __init__(
        self,
        operation: Any,
        results: Tensors,
        finish: Callable[[Any], None] | None,
        limit_s: float,
        explain: Callable[[Error], Error],
        keeper: FutureKeeper,
        identity: str = "",
    ) -> None:
        """Wraps the core's `operation`; `finish` runs once when it has ended well.

        limit_s: the default timeout of wait(). explain: rewrites an error in the group's terms.
        identity: the operation's name on all ranks of the group, if it has one.
        """
        super().__init__()
        self._operation = operation
        self._results = results
        self._finish = finish
        self._limit_s = limit_s
        self._explain = explain
        self._keeper = keeper
        self._identity = identity
        self._children = 0  # number of operations that callbacks of its future have started
        self._lock = threading.Lock()
        self._ended = False
        self._error: Exception | None = None
        self._future: WorkFuture[Tensors] | None = None
        self._followed = False  # a thread of the group completes the future
        self._settled = False
        self._callback_error: Exception | None = None
        self._callbacks_ran: threading.Event | None = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Blocks until the operation has ended; raises its error, or TimeoutError."""
        if not self._ended:
            self._wait_for_operation(timeout.total_seconds() or self._limit_s)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """As wait()."""
        self.wait()

    def _wait_for_operation(self, limit_s: float) -> None:
        try:
            self._operation.wait(limit_s)
        except (TimeoutError, InterruptedError) as error:
            raise self._explain(error) from None  # the operation goes on
        except Error as error:
            self._end(self._explain(error))
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        with self._lock:
            if self._ended:
                return
            if error is None and self._finish is not None:
                try:
                    self._finish(self._operation)
                except Error as mismatch:
                    error = mismatch
            self._error = error
            self._ended = True

    def is_completed(self) -> bool:
        """True if it has ended, with or without an error; never blocks."""
        return self._ended or bool(self._operation.done())

    def is_success(self) -> bool:
        """True if it has ended without an error; never blocks."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        """Its error once it has ended; None otherwise."""
        if self.is_completed() and not self._ended:
            self._wait_for_operation(self._limit_s)
        return self._error

    def result(self) -> Tensors:
        """The tensors with the result; blocks."""
        self.wait()
        return self._results

    def source_rank(self) -> int:
        """Raises TypeError: only a received message has a source."""
        raise TypeError("only a received message has a source rank")

    _source_rank = source_rank

    def get_future(self) -> Future[Tensors]:
        """A future of the result. Its callbacks run in the thread that settles it.

        That is one of the group, one that waits for it, or autograd's at the end of backward. They
        may start operations.
        """
        if _ends_backward():
            self.wait()  # an error raised here keeps its type; see FutureKeeper
            self._keeper.note_late_start()
        with self._lock:
            future, is_new = self._future, self._future is None
            if future is None:
                future = WorkFuture(self)
                if not self._settled:
                    self._callbacks_ran = threading.Event()
                    self._future = future
        if self._settled:
            self._complete(future)
        elif is_new and not self._keeper.settles_after_backward(self):
            self.follow()
        return future

    def follow(self) -> None:
        """Lets a thread complete the future, so that callbacks need not wait for a caller."""
        if not self._followed and not self._settled:
            self._followed = True
            self._keeper.follow(self)

    def settled_well(self) -> bool:
        """True if its future is complete, without an error of the operation or of a callback."""
        return self._settled and self._error is None and self._callback_error is None

    def note_callback_error(self, error: Exception) -> None:
        """Keeps the first error of a callback, for the end of backward."""
        self._callback_error = self._callback_error or error

    def check(self) -> None:
        """Raises its error, or that of a callback of its future, which has been settled."""
        self.wait()
        assert self._callbacks_ran is not None, "check() is for operations with a future"
        self._callbacks_ran.wait()  # another thread may use them
        if self._callback_error is not None:
            raise self._callback_error

    def settle(self) -> None:
        """Waits, and completes the future; never raises the operation's error."""
        try:
            self.wait()
        except Error as error:
            self._end(error)
        with self._lock:
            # Clear it: the cycle would keep both alive until garbage collection.
            future, self._future = self._future, None
            self._settled = self._settled or future is not None
        if future is None:
            return
        try:
            self._complete(future)
        finally:
            assert self._callbacks_ran is not None
            self._callbacks_ran.set()

    def _complete(self, future: WorkFuture[Tensors]) -> None:
        if not future.done():
            if self._error is None:
                future.set_result(self._results)
            else:
                future.set_exception(self._error)  # type: ignore[arg-type]


class WorkFuture(Future[T]):
    """A future that a waiting thread completes; it needs no other thread."""

    def __init__(self, work: Work) -> None:
        """Depends on `work`, directly or through callbacks."""
        super().__init__()
        self._work = work

    def wait(self) -> T:
        """Blocks until it is complete; returns its value or raises its error."""
        if not self.done():
            self._work.settle()
        return super().wait()

    def then(self, callback: Callable[[Future[T]], S]) -> WorkFuture[S]:
        """A future of what `callback` returns, which is called once this one is complete."""
        child: WorkFuture[S] = WorkFuture(self._work)

        def run(parent: Future[T]) -> None:
            try:
                child.set_result(callback(parent))
            except Exception as error:
                child.set_exception(error)  # type: ignore[arg-type]
                self._work.note_callback_error(error)

        self.add_done_callback(run)
        return child

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Calls `callback` once this one is complete; if it is already, calls it here."""

        def run(parent: Future[T]) -> None:
            outer = getattr(_in_callback, "work", None)
            _in_callback.work = self._work
            try:
                callback(parent)
            finally:
                _in_callback.work = outer

        super().add_done_callback(run)
        self._work.follow()


class Joined(Work):
    """Several operations as one."""

    def __init__(self, works: list[Work], keeper: FutureKeeper) -> None:
        """Completes when all of `works` have."""
        results = [tensor for work in works for tensor in work._results]
        identity = f"{works[0]._identity}+" if works and works[0]._identity else ""
        super().__init__(None, results, None, 0.0, lambda error: error, keeper, identity)
        self._works = works

    def _wait_for_operation(self, limit_s: float) -> None:
        for work in self._works:
            work.wait(timedelta(seconds=limit_s))
        self._end(None)

    def is_completed(self) -> bool:
        """True if all have ended."""
        return all(work.is_completed() for work in self._works)


class FutureKeeper:
    """Completes the futures of one group's operations.

    Futures of operations started in backward complete when it ends. Their errors are raised there
    with their types: C++ code (DDP) would turn a future's error into a RuntimeError. A thread
    starts with the first such future. It completes the other futures, those with callbacks, and
    those that are not complete after a moment.
    """

    def __init__(self) -> None:
        """Starts no thread."""
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._in_backward: dict[int, list[Work]] = {}  # by autograd's number of the pass
        self._waited_for_early = False

    def follow(self, work: Work) -> None:
        """Lets the thread complete `work`'s future once it has ended."""
        self._start_thread()
        self._queue.put(work)

    def close(self) -> None:
        """Ends the thread after its queued work; does not wait for it."""
        self._queue.put(None)

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ronde-futures", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        waiting: list[Work] = []
        while True:
            try:
                work = self._queue.get(timeout=_LATE_S)
            except Empty:
                for late in waiting:
                    late.settle()
                waiting = [work for works in list(self._in_backward.values()) for work in works]
                continue
            if work is None:
                return
            work.settle()
            del work  # else its tensors would live until the next work

    def note_late_start(self) -> None:
        """An operation was started at the end of backward: DDP's static graph has begun.

        From the second pass on DDP waits for futures first of all at the end of backward.
        """
        self._waited_for_early = True

    def settles_after_backward(self, work: Work) -> bool:
        """True in backward, whose end then completes `work`'s future."""
        task = torch._C._current_graph_task_id()
        if task == -1:
            return False
        works = self._in_backward.get(task)
        if works is None:
            self._start_thread()
            self._abandon()
            works = self._in_backward[task] = []
            engine = torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: self._end_backward(task))
        works.append(work)
        return not self._waited_for_early

    def _abandon(self) -> None:
        """Lets the thread complete the futures of passes that ended by an error.

        It also completes those of outer passes that have not ended.
        """
        for task, works in list(self._in_backward.items()):
            left = [work for work in works if not work.settled_well()]
            for work in left:
                work.follow()
            if left:
                self._in_backward[task] = left
            else:
                del self._in_backward[task]

    def _end_backward(self, task: int) -> None:
        for work in self._in_backward.pop(task, []):
            work.settle()
            work.check()
