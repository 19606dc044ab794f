"""Checks at an optimizer's second step that its variables are alike on all ranks.

BroadcastGlobalVariablesCallback and scripts of custom loops may broadcast after the first step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras

from ronde._training.first_step import fact
from ronde.keras import _backend


def watch(model: Any, options: Any) -> None:
    """Makes the model's train function check before its second call."""
    train = model.train_function
    if train is None or not options.first_step.pending or getattr(train, "is_watched", False):
        return

    def watched(*arguments: Any) -> Any:
        _check(options, model.trainable_variables)
        if not options.first_step.pending and model.train_function is watched:
            model.train_function = train
        return train(*arguments)

    watched.is_watched = options.watched = True  # type: ignore[attr-defined]
    model.train_function = watched


def look(options: Any, variables: Iterable[Any]) -> None:
    """Checks in the second call from a loop that runs eagerly. In a graph it does nothing."""
    if options.first_step.pending and not options.watched and _backend.runs_eagerly():
        _check(options, variables)


def _check(options: Any, variables: Iterable[Any]) -> None:
    shared = [v for v in variables if options.key(v) not in options.local]
    options.first_step.check(lambda: (fact(v.path, _values(v)) for v in shared))


def _values(variable: Any) -> Any:
    return keras.ops.convert_to_numpy(variable.value)
