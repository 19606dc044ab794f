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

    def asynchronous(*arguments: P.args, **named: P.kwargs) -> Handle[R]:
        return start(False, *arguments, **named)

    _describe_async(asynchronous, start)
    return _blocking(start), asynchronous


def forms_with(
    only_blocking: str, start: Callable[Concatenate[bool, P], Handle[R]]
) -> tuple[Callable[P, R], Callable[..., Handle[R]]]:
    """As forms(), but NAME_async has no parameter of the name `only_blocking`."""
    parameters = [*inspect.signature(start).parameters.values()][1:]
    place = [parameter.name for parameter in parameters].index(only_blocking)
    default = parameters[place].default

    def asynchronous(*arguments: Any, **named: Any) -> Handle[R]:
        if only_blocking in named:
            raise TypeError(f"only the blocking function takes {only_blocking}")
        if len(arguments) > place:
            arguments = (*arguments[:place], default, *arguments[place:])
        return start(False, *arguments, **named)

    _describe_async(asynchronous, start, only_blocking)
    return _blocking(start), asynchronous


def _blocking(start: Callable[Concatenate[bool, P], Handle[R]]) -> Callable[P, R]:
    def blocking(*arguments: P.args, **named: P.kwargs) -> R:
        return start(True, *arguments, **named).wait()

    _describe(blocking, start, start.__name__.lstrip("_"), inspect.getdoc(start) or "")
    return blocking


def _describe_async(function: Any, start: Any, left_out: str = "") -> None:
    name = start.__name__.lstrip("_")
    stem = name.rstrip("_")
    _describe(function, start, f"{stem}_async{name[len(stem) :]}", f"Starts {name}().", left_out)


def _describe(function: Any, start: Any, name: str, doc: str, left_out: str = "") -> None:
    """Gives `function` the name, signature and module that help(), inspect and pickle need."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = start.__module__
    function.__doc__ = doc
    signature = inspect.signature(start)
    parameters = [*signature.parameters.values()][1:]
    kept = [parameter for parameter in parameters if parameter.name != left_out]
    function.__signature__ = signature.replace(parameters=kept)
