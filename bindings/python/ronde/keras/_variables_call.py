"""Makes calls of Horovod scripts for Keras 2 work in Keras 3.

Such scripts call `optimizer.variables()` on optimizers that Ronde has not made, read and set their
`lr`, and call `ref()` on a layer's variables. So Keras' classes are changed. Keras and TensorFlow
see the same list as before.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import keras

_LIBRARIES = ("keras", "tensorflow")


class CallableList(list[Any]):
    """A list that returns itself when called."""

    def __call__(self) -> list[Any]:
        return self


@functools.cache
def install() -> None:
    """Makes optimizers of Keras 3 return their variables as such a list. Installs once.

    Optimizers get `lr`, and variables ref() where the backend is TensorFlow.
    """
    if not hasattr(keras.optimizers.Optimizer, "lr"):
        keras.optimizers.Optimizer.lr = property(_learning_rate, _set_learning_rate)
    if keras.backend.backend() == "tensorflow" and not hasattr(keras.Variable, "ref"):
        keras.Variable.ref = _ref
    for kind in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer):
        owner: Any = next(c for c in kind.__mro__ if "variables" in vars(c))
        known = vars(owner)["variables"]
        if isinstance(known, property):  # a method, in Keras 2
            owner.variables = _callable(known)


def _learning_rate(optimizer: Any) -> Any:
    """The learning rate, under the name it has in Keras 2."""
    return optimizer.learning_rate


def _set_learning_rate(optimizer: Any, value: Any) -> None:
    optimizer.learning_rate = value


def _ref(variable: Any) -> Any:
    """The ref() of the tf.Variable behind it, which stands for both."""
    return variable.value.ref()


def _callable(known: property) -> property:
    def variables(optimizer: Any) -> list[Any]:
        found: list[Any] = known.__get__(optimizer)
        asker = str(sys._getframe(1).f_globals.get("__name__", ""))
        return found if asker.partition(".")[0] in _LIBRARIES else CallableList(found)

    return property(variables, doc=known.__doc__)
