"""Makes `optimizer.variables()` work in Keras 3, as Horovod scripts for Keras 2 call it.

Such scripts call it on optimizers that Ronde has not made, so Keras' class is changed. Keras and
TensorFlow see the same list as before.
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
    """Makes optimizers of Keras 3 return their variables as such a list. Installs once."""
    for kind in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer):
        owner: Any = next(c for c in kind.__mro__ if "variables" in vars(c))
        known = vars(owner)["variables"]
        if isinstance(known, property):  # a method, in Keras 2
            owner.variables = _callable(known)


def _callable(known: property) -> property:
    def variables(optimizer: Any) -> list[Any]:
        found: list[Any] = known.__get__(optimizer)
        asker = str(sys._getframe(1).f_globals.get("__name__", ""))
        return found if asker.partition(".")[0] in _LIBRARIES else CallableList(found)

    return property(variables, doc=known.__doc__)
