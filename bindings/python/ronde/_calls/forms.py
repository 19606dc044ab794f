"""One definition of a collective gives both its blocking and its asynchronous function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

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

    def blocking(*arguments: P.args, **named: P.kwargs) -> R:
        return start(True, *arguments, **named).wait()

    def asynchronous(*arguments: P.args, **named: P.kwargs) -> Handle[R]:
        return start(False, *arguments, **named)

    name = str(start.__name__.lstrip("_"))
    stem = name.rstrip("_")
    result = start.__annotations__["return"][len("Handle[") : -1]
    describe(blocking, start, name, start.__doc__ or "", skip=1, returned=result)
    doc = f"Starts {name}(); its result is that of the handle's wait()."
    describe(asynchronous, start, f"{stem}_async{name[len(stem) :]}", doc, skip=1)
    start.__qualname__ = name  # the name that Python's TypeErrors show
    return blocking, asynchronous
