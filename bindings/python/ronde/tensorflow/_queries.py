"""Operations that tell ranks and sizes when a graph runs: elastic jobs change them."""

from __future__ import annotations

from typing import Any

from ronde._calls.argument_checks import check
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import core_id_of_number
from ronde._tensorflow import ops
from ronde._tensorflow.tracing import as_written

__all__ = [
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "size_op",
]


def _of_set(question: str, number: int, name: str | None) -> Any:
    check(process_set_id=number)
    identifier = core_id_of_number(number)
    if identifier is None:
        raise InvalidArgumentError(f"there is no process set {number}; see add_process_set()")
    return ops.query(question, identifier, name)


@as_written
def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """The number of ranks of a process set, when the graph runs; an int32 scalar."""
    return _of_set("size", process_set_id, name)


@as_written
def rank_op(name: str | None = None) -> Any:
    """This process's rank, when the graph runs; an int32 scalar."""
    return ops.query("rank", 0, name)


@as_written
def local_size_op(name: str | None = None) -> Any:
    """The number of ranks on this host, when the graph runs; an int32 scalar."""
    return ops.query("local_size", 0, name)


@as_written
def local_rank_op(name: str | None = None) -> Any:
    """This process's number on this host, when the graph runs; an int32 scalar."""
    return ops.query("local_rank", 0, name)


@as_written
def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """1 if this process is in the set, else 0, when the graph runs; an int32 scalar."""
    return _of_set("included", process_set_id, name)
