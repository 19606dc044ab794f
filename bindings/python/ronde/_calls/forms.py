"""One definition of a collective gives both its blocking and its asynchronous function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ronde._calls.described import describe
from ronde._calls.handle import Handle

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
    return blocking(start), _asynchronous(start)


def blocking(start: Callable[Concatenate[bool, P], Handle[R]]) -> Callable[P, R]:
    """Makes NAME, which blocks, of `_NAME(wait, ...)`."""

    def waiting(*arguments: P.args, **named: P.kwargs) -> R:
        return start(True, *arguments, **named).wait()

    handle = start.__annotations__["return"]  # "Handle[Tensor]"
    result = handle[len("Handle[") : -1]
    describe(waiting, start, _name(start), start.__doc__ or "", skip=1, returned=result)
    start.__qualname__ = _name(start)  # the name that Python's TypeErrors show
    return waiting


def _asynchronous(
    start: Callable[Concatenate[bool, P], Handle[R]],
) -> Callable[P, Handle[R]]:
    def asynchronous(*arguments: P.args, **named: P.kwargs) -> Handle[R]:
        return start(False, *arguments, **named)

    name = _name(start)
    stem = name.rstrip("_")
    doc = f"Starts {name}(); its result is that of the handle's wait()."
    describe(asynchronous, start, f"{stem}_async{name[len(stem) :]}", doc, skip=1)
    return asynchronous


def _name(start: Any) -> str:
    return str(start.__name__.lstrip("_"))
