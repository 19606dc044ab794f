"""Compares an optimizer's variables between ranks: at its second step, and every few steps.

BroadcastGlobalVariablesCallback and scripts of custom loops may broadcast after the first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import keras

from ronde._job.runtime import is_initialized
from ronde._training.owners import of_one_rank
from ronde._training.replicas import Fact
from ronde.keras import _backend


def watch(model: Any, options: Any) -> None:
    """Makes the model's train function check before its second call, and every few calls."""
    train = model.train_function
    if train is None or not _is_due(options) or getattr(train, "is_watched", False):
        return

    def watched(*arguments: Any) -> Any:
        if options.first_step.pending:
            _check(options, model.trainable_variables)
        compared = partial(facts, model.optimizer, model.trainable_variables)
        options.replicas.before_step(compared)
        if not _is_due(options) and model.train_function is watched:
            model.train_function = train
        result = train(*arguments)
        options.replicas.after_step(compared)
        return result

    watched.is_watched = options.watched = True  # type: ignore[attr-defined]
    model.train_function = watched


def look(optimizer: Any, variables: Iterable[Any]) -> None:
    """Checks in a call from a loop that runs eagerly. In a graph it does nothing."""
    options = optimizer._ronde
    if options.watched or not _backend.runs_eagerly():
        return
    if options.first_step.pending:
        _check(options, variables)
    options.replicas.before_step(partial(facts, optimizer, variables))


def stepped(optimizer: Any, variables: Iterable[Any]) -> None:
    """Counts a step of such a loop."""
    if not optimizer._ronde.watched and _backend.runs_eagerly():
        optimizer._ronde.replicas.after_step(partial(facts, optimizer, variables))


def _is_due(options: Any) -> bool:
    return bool(options.first_step.pending or (is_initialized() and options.replicas.is_on()))


def _check(options: Any, variables: Iterable[Any]) -> None:
    shared = [v for v in variables if options.key(v) not in options.local]
    options.first_step.check(lambda: (Fact(v.path, _values(v)) for v in shared))


def facts(
    optimizer: Any, variables: Iterable[Any], extra: Mapping[str, Any] | None = None
) -> Iterator[Fact]:
    """The variables that ranks share, the optimizer's, and tensors of the user's.

    Accumulated gradients and sharded state are a rank's own. If some variables are, too, no state
    is compared: it does not say which variable it belongs to.
    """
    options = optimizer._ronde
    shared = [v for v in variables if options.key(v) not in options.local]
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    own = {id(v) for one in (inner, optimizer) for v in getattr(one, _ACCUMULATED, None) or []}
    own |= {id(v) for v in optimizer.variables if of_one_rank(v)}
    state = [] if options.local else [v for v in optimizer.variables if id(v) not in own]
    for variable in [*shared, *state]:
        yield Fact(variable.path, _values(variable), variable.assign)
    for name, tensor in (extra or {}).items():
        yield Fact(name, keras.ops.convert_to_numpy(tensor), getattr(tensor, "assign", None))


def _values(variable: Any) -> Any:
    return keras.ops.convert_to_numpy(variable.value)


_ACCUMULATED = "_accumulated_gradients"
