"""Handles of operations in flight, whatever kind of tensor they work on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ronde import _core

T = TypeVar("T")
R = TypeVar("R")


class Handle(Generic[R]):
    """An operation in flight. Keeps the tensors alive until it has ended."""

    __slots__ = ("_finish", "_operation", "_result")

    def __init__(self, operation: Any, finish: Callable[[Any], R]) -> None:
        """Wraps the core's operation; `finish` makes the result of it, once it is done."""
        self._operation = operation
        self._finish: Callable[[Any], R] | None = finish
        self._result: R

    def done(self) -> bool:
        """Whether it has ended, well or not; never blocks."""
        return bool(self._operation.done())

    def wait(self, timeout: float | None = None) -> R:
        """Blocks until it has ended and returns the result, or raises its error.

        timeout: seconds after which TimeoutError is raised; the operation then goes on.
        """
        if self._finish is not None:
            self._operation.wait(-1.0 if timeout is None else timeout)
            self._result = self._finish(self._operation)
            self._finish = None
        return self._result

    def __call__(self) -> R:
        """The same as wait(): sparse operations of Horovod are waited for by calling them."""
        return self.wait()


def wait_together(handles: Iterable[object]) -> None:
    """Blocks until all have ended, well or not; those of no single operation are left out.

    Where ranks can only wait for each other, they learn it of all of these at once.
    """
    _core.wait_all([handle._operation for handle in handles if isinstance(handle, Handle)])


def mapped(handle: Handle[Any], function: Callable[[Any], R]) -> Handle[R]:
    """The same operation, its result passed through `function`."""
    finish = handle._finish
    assert finish is not None, "mapped() is for handles nobody has waited for"
    return Handle(handle._operation, lambda operation: function(finish(operation)))


def first(handle: Handle[list[T]]) -> Handle[T]:
    """The same operation, its result the first of the list."""
    return mapped(handle, lambda results: results[0])
