"""Variables of TensorFlow and of Keras, which wraps them."""

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
    """Tells variables apart: the same for a Keras variable and the tf.Variable behind it."""
    behind = native(variable)
    return behind.ref() if hasattr(behind, "ref") else id(behind)


def check(variables: Any) -> list[Any]:
    """The tf.Variables. Raises InvalidArgumentError where one is not made yet, or no variable."""
    given_ones = list(variables)
    found = [native(variable) for variable in given_ones]
    for given, variable in zip(given_ones, found):
        if not isinstance(variable, tf.Variable):
            raise InvalidArgumentError(
                f"{getattr(given, 'path', given)!r} is no built variable but a "
                f"{type(given).__name__}; build the model (or the optimizer) first"
            )
    return found
