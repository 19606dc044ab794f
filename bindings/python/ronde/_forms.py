"""One definition of a collective gives both its blocking and its asynchronous function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ronde._handle import Handle

if TYPE_CHECKING:
    from typing import Concatenate, ParamSpec

    P = ParamSpec("P")

R = TypeVar("R")


def forms(
    start: Callable[Concatenate[bool, P], Handle[R]],
) -> tuple[Callable[P, R], Callable[P, Handle[R]]]:
    """Makes NAME, which blocks, and NAME_async, which returns a handle, of `_NAME(wait, ...)`.

    Both take the arguments and the documentation of `start`. `wait` says that the caller waits at
    once, so that the operation may be complete when `start` returns. A name that ends in "_" (in
    place) keeps it at its end.
    """

    def blocking(*arguments: P.args, **named: P.kwargs) -> R:
        return start(True, *arguments, **named).wait()

    def asynchronous(*arguments: P.args, **named: P.kwargs) -> Handle[R]:
        return start(False, *arguments, **named)

    name = start.__name__.lstrip("_")
    stem = name.rstrip("_")
    _describe(blocking, start, name, inspect.getdoc(start) or "")
    _describe(asynchronous, start, f"{stem}_async{name[len(stem) :]}", f"Starts {name}().")
    return blocking, asynchronous


def _describe(function: Any, start: Any, name: str, doc: str) -> None:
    """Gives `function` the name, signature and module that help(), inspect and pickle need."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = start.__module__
    function.__doc__ = doc
    signature = inspect.signature(start)
    function.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])
