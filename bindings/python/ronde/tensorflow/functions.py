"""Broadcasts variables and objects, so that all ranks start equal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ronde import _objects
from ronde._collectives import set_id
from ronde._job import ProcessSet, global_process_set
from ronde.tensorflow import _ops, _variables, mpi_ops
from ronde.tensorflow._tracing import as_written
from ronde.tensorflow._types import carried

__all__ = [
    "allgather_object",
    "broadcast_",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]


@as_written
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives every rank the root's values of these tf or Keras variables.

    They are one operation: if ranks have different numbers, shapes or types, all raise
    MismatchError and nothing is changed. `inplace` is accepted for Horovod scripts.
    Returns an operation for a session to run; None in eager mode and inside functions.
    Raises InvalidArgumentError (a ValueError) for variables that are not built yet. Warns if there
    are none, as of a model that is not built yet: its ranks would start different.
    """
    del inplace
    given = list(variables)
    if not given:
        warnings.warn(
            "broadcast_variables() got no variables; a model that is not built has none: "
            "build it first, by keras.Input, build() or a call",
            stacklevel=3,
        )
    assigned = broadcast_(given, root_rank, process_set=process_set)
    in_session = not (tf.executing_eagerly() or tf.inside_function())
    return tf.group(*assigned) if in_session else None


@as_written
def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """As broadcast_variables(). Returns the variables; in a graph, their new values."""
    targets = _variables.check(variables)
    # The number is sent first, so that a rank without variables takes part too.
    values = [tf.constant(0, tf.int32), *[tf.convert_to_tensor(v) for v in targets]]
    members = set_id(process_set)
    names = [mpi_ops._name(name, "broadcast_variables", members)]
    received = carried(values, lambda sent: _ops.broadcast(sent, names, root_rank, members))
    assigned = [variable.assign(value) for variable, value in zip(targets, received[1:])]
    return list(variables) if tf.executing_eagerly() else assigned


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives every rank the root's `obj` (any that can be pickled). `session` has no effect."""
    del session
    return _objects.broadcast_object(obj, root_rank, name, process_set)


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
    return _objects.allgather_object(obj, name, process_set)
