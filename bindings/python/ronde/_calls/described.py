"""Makes help() show signatures without quotes, and the meaning of each argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_NO_EFFECT = "accepted for Horovod scripts; has no effect"
_MEANINGS = {
    "tensor": "this rank's tensor",
    "tensors": "this rank's tensors, as many on each rank",
    "array": "this rank's array",
    "arrays": "this rank's arrays, as many on each rank",
    "indices": "the index of each of this rank's rows, as many as there are values",
    "values": "this rank's rows, along the first dimension",
    "rows": "the rows of the whole table, if they are known; indices are below it",
    "value": "this rank's number, array or tensor",
    "obj": "this rank's object; any that can be pickled",
    "handle": "what an asynchronous function has returned",
    "average": "deprecated, use op: True stands for Average, False for Sum",
    "name": "operations of one name match; without it the k-th unnamed one of each rank match",
    "compression": 'a codec: one of Compression, or its text, such as "int8:block=128"',
    "op": "the reduce operation, such as Sum; Average by default",
    "prescale_factor": "multiplies each rank's input before the reduction",
    "postscale_factor": "multiplies the result of the reduction",
    "weight": "this rank's part in a weighted average, such as its number of samples",
    "process_set": "the ranks that take part; all of the job by default",
    "process_set_id": "the number of a process set; 0 is that of all ranks",
    "root_rank": "the root, a rank of the job",
    "splits": "how many rows for each rank of the set, in order; equal chunks by default",
    "out": "where the result is stored; a new array by default",
    "num_groups": "groups, as a number",
    "device": _NO_EFFECT,
    "device_dense": _NO_EFFECT,
    "device_sparse": _NO_EFFECT,
    "ignore_name_scope": _NO_EFFECT,
}


class _Written(str):
    """An annotation that prints as it stands in the source, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def described(function: F) -> F:
    """Adds the meaning of each common argument to a function's documentation."""
    describe(function, function, "", function.__doc__ or "")
    return function


def describe(
    function: Any, source: Any, name: str, doc: str, skip: int = 0, returned: str | None = None
) -> None:
    """Gives `function` the name, module and signature of `source`, and a documentation.

    skip: first parameters that `function` does not have. returned: its own return annotation.
    """
    written = inspect.signature(source)
    parameters = [
        parameter.replace(annotation=_written(parameter.annotation))
        for parameter in [*written.parameters.values()][skip:]
    ]
    result = written.return_annotation if returned is None else returned
    signature = written.replace(parameters=parameters, return_annotation=_written(result))
    function.__signature__ = signature
    function.__annotations__ = _annotations(signature)
    function.__doc__ = _with_meanings(inspect.cleandoc(doc), signature)
    if function is not source:
        function.__name__ = function.__qualname__ = name
        function.__module__ = source.__module__
        function.__wrapped__ = source  # where the names in annotations are looked up


def _written(annotation: Any) -> Any:
    return _Written(annotation) if isinstance(annotation, str) else annotation


def _annotations(signature: inspect.Signature) -> dict[str, Any]:
    listed = {one.name: one.annotation for one in signature.parameters.values()}
    listed["return"] = signature.return_annotation
    return {name: value for name, value in listed.items() if value is not inspect.Parameter.empty}


def _with_meanings(doc: str, signature: inspect.Signature) -> str:
    """The text, and a line for each argument that it does not explain itself."""
    lines = [
        f"    {name}: {_MEANINGS[name]}."
        for name in signature.parameters
        if name in _MEANINGS and f"{name}: " not in doc
    ]
    return "\n".join([doc, "", "Arguments:", *lines]) if lines else doc
