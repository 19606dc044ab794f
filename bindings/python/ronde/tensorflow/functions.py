"""Broadcasts variables and objects, so that all ranks start equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ronde._collectives import objects
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._tensorflow.variables import broadcast_, broadcast_variables

__all__ = [
    "allgather_object",
    "broadcast_",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives every rank the root's `obj` (any that can be pickled). `session` has no effect."""
    del session
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """A function that gives every rank the root's argument."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Returns the objects of all ranks of the set, in order of rank, on each of them."""
    del session
    return objects.allgather_object(obj, name, process_set)
