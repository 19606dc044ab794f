"""Variables of TensorFlow and of Keras, whose variables wrap TensorFlow's, and their broadcast."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._calls.argument_checks import MODEL_VARIABLES, several, shown
from ronde._collectives.calls import set_id
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._tensorflow import ops
from ronde._tensorflow.collectives import name_of_call
from ronde._tensorflow.tracing import as_written
from ronde._tensorflow.types import carried
from ronde._training.owners import of_one_rank


def native(variable: Any) -> Any:
    """The tf.Variable behind a Keras variable; any other object itself."""
    if isinstance(variable, tf.Variable):
        return variable
    behind = getattr(variable, "value", None)
    return behind if isinstance(behind, tf.Variable) else variable


def key(variable: Any) -> Any:
    """A variable's key: the same for a Keras variable and its tf.Variable."""
    behind = native(variable)
    return behind.ref() if hasattr(behind, "ref") else id(behind)


def name_of(variable: Any) -> str:
    """The path of a Keras variable, the name of another one."""
    return str(getattr(variable, "path", None) or variable.name)


def check(variables: Any) -> list[Any]:
    """The tf.Variables. Raises InvalidArgumentError for one that is not built, or no variable."""
    given_ones = several(variables, MODEL_VARIABLES)
    found = [native(variable) for variable in given_ones]
    for given, variable in zip(given_ones, found):
        if not isinstance(variable, tf.Variable):
            raise InvalidArgumentError(
                f"{shown(getattr(given, 'path', given))} is no built variable but a "
                f"{type(given).__name__}; build the model (or the optimizer) first"
            )
    return found


@as_written
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives every rank the root's values of these tf or Keras variables.

    They are one operation: if ranks have different numbers, shapes or types, all raise
    MismatchError and nothing is changed. State of sharded optimizers, which each rank has a part
    of, is left out. `inplace` is accepted for Horovod scripts.
    Returns an operation for a session to run; None in eager mode and inside functions.
    Raises InvalidArgumentError (a ValueError) for variables that are not built yet. Warns if there
    are none, as of a model that is not built yet: its ranks would start different.
    """
    del inplace
    given = check([v for v in several(variables, MODEL_VARIABLES) if not of_one_rank(v)])
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
    targets = check(variables)
    # The number is sent first, so that a rank without variables takes part too.
    values = [tf.constant(0, tf.int32), *[tf.convert_to_tensor(v) for v in targets]]
    members = set_id(process_set)
    names = [name_of_call(name, "broadcast_variables", members)]
    received = carried(values, lambda sent: ops.broadcast(sent, names, root_rank, members))
    assigned = [variable.assign(value) for variable, value in zip(targets, received[1:])]
    return list(variables) if tf.executing_eagerly() else assigned
