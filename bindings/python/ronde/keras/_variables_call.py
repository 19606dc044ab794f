"""Lets scripts for Keras 2, as Horovod's are, call `optimizer.variables()` in Keras 3 too."""

from __future__ import annotations

import functools
from typing import Any

import keras


class CallableList(list[Any]):
    """A list that gives itself when called."""

    def __call__(self) -> list[Any]:
        return self


@functools.cache
def install() -> None:
    """Has optimizers of Keras 3 give their variables as such a list. Once."""
    for kind in (keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer):
        owner: Any = next(c for c in kind.__mro__ if "variables" in vars(c))
        known = vars(owner)["variables"]
        if isinstance(known, property):  # a method, in Keras 2
            owner.variables = _callable(known)


def _callable(known: property) -> property:
    return property(lambda optimizer: CallableList(known.__get__(optimizer)), doc=known.__doc__)
