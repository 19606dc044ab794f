"""Handles of operations in flight, for all frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ronde import _core
from ronde._calls.argument_checks import explained

T = TypeVar("T")
R = TypeVar("R")


class Handle(Generic[R]):
    """An operation in flight. Keeps the tensors alive until it has ended."""

    __slots__ = ("_finish", "_operation", "_result")

    def __init__(self, operation: Any, finish: Callable[[Any], R]) -> None:
        """Wraps the core's operation. `finish` makes the result once it is done."""
        self._operation = operation
        self._finish: Callable[[Any], R] | None = finish
        self._result: R

    def done(self) -> bool:
        """True if it has ended, with or without an error; never blocks."""
        return bool(self._operation.done())

    def wait(self, timeout: float | None = None, together: _core.Together | None = None) -> R:
        """Blocks until it has ended and returns the result, or raises its error.

        timeout: seconds after which TimeoutError is raised; the operation then goes on.
        together: other operations to wait for, see together().
        """
        if self._finish is not None:
            limit = -1.0 if timeout is None else timeout
            try:
                if together is None:
                    self._operation.wait(limit)
                else:
                    self._operation.wait(limit, together)
            except TypeError as error:
                raise explained(error, timeout=timeout) from None
            self._result = self._finish(self._operation)
            self._finish = None
        return self._result

    def __call__(self) -> R:
        """The same as wait(). Horovod's sparse handles are called."""
        return self.wait()


Handle.__module__ = "ronde"  # its public name


def together(handles: Iterable[Handle[Any]]) -> _core.Together:
    """For Handle.wait(): this thread waits for all of these before it submits anything else.

    The deadlock detector then sees all of them at once.
    """
    return _core.Together([handle._operation for handle in handles])


def mapped(handle: Handle[Any], function: Callable[[Any], R]) -> Handle[R]:
    """The same operation, its result passed through `function`."""
    finish = handle._finish
    assert finish is not None, "mapped() is for handles nobody has waited for"
    return Handle(handle._operation, lambda operation: function(finish(operation)))


def first(handle: Handle[list[T]]) -> Handle[T]:
    """The same operation, its result the first of the list."""
    return mapped(handle, lambda results: results[0])
