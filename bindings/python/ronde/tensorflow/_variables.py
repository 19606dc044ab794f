"""Variables of TensorFlow and of Keras, whose variables wrap TensorFlow's."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde._errors import InvalidArgumentError


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
    given_ones = list(variables)
    found = [native(variable) for variable in given_ones]
    for given, variable in zip(given_ones, found):
        if not isinstance(variable, tf.Variable):
            raise InvalidArgumentError(
                f"{getattr(given, 'path', given)!r} is no built variable but a "
                f"{type(given).__name__}; build the model (or the optimizer) first"
            )
    return found
