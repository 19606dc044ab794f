"""Warns of a model whose ranks would train apart: its optimizer does not average gradients."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import metrics, rank
from ronde.keras._optimizer import is_distributed

_STEPS = 8  # some accumulate gradients first


class _Warned:
    once = False


def warn_if_undistributed(model: Any, process_set: ProcessSet = global_process_set) -> None:
    """Warns once, on the first of several ranks, if fit() trains the model on each rank alone.

    A model with a train_step() of its own may average gradients there: see watch().
    """
    if _is_of_interest(model, process_set) and not _has_own_step(model):
        kind = type(model.optimizer).__name__
        _warn(
            f"the model {model.name} was compiled with a plain {kind}: each rank trains a model of "
            f"its own; compile it with hvd.DistributedOptimizer({kind}(...))"
        )


def watch(model: Any) -> None:
    """Makes a train function of the user's train_step() warn if its steps move no data."""
    train = model.train_function
    if train is None or not _has_own_step(model) or not _is_of_interest(model, global_process_set):
        return
    before, calls = _submitted(), 0

    def watched(*arguments: Any) -> Any:
        nonlocal calls
        result = train(*arguments)
        calls += 1
        is_silent = _submitted() == before
        if (calls == _STEPS or not is_silent) and model.train_function is watched:
            model.train_function = train
        if calls == _STEPS and is_silent:
            kind = type(model.optimizer).__name__
            _warn(
                f"the first {_STEPS} steps of {model.name}'s train_step() averaged nothing, and "
                f"its optimizer is a plain {kind}: each rank trains a model of its own; compile "
                f"it with hvd.DistributedOptimizer({kind}(...)), or use "
                "hvd.DistributedGradientTape"
            )
        return result

    model.train_function = watched


def _is_of_interest(model: Any, process_set: ProcessSet) -> bool:
    if _Warned.once or (process_set.size() or 1) == 1 or rank() != process_set.ranks[0]:
        return False
    optimizer = getattr(model, "optimizer", None)
    return optimizer is not None and not is_distributed(optimizer)


def _has_own_step(model: Any) -> bool:
    return type(model).train_step is not keras.Model.train_step


def _submitted() -> float:
    """Number of this rank's operations so far."""
    counts = metrics().items()
    return sum(count for name, count in counts if name.startswith("ronde_operations_submitted"))


def _warn(text: str) -> None:
    _Warned.once = True
    warnings.warn(text, stacklevel=3)
