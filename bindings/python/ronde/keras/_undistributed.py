"""Warns of a model whose ranks would train apart: its optimizer does not average gradients."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import rank
from ronde.keras._optimizer import is_distributed


class _Warned:
    once = False


def warn_if_undistributed(model: Any, process_set: ProcessSet = global_process_set) -> None:
    """Warns once, on the first of several ranks, if fit() trains the model on each rank alone.

    A model with a train_step() of its own may average gradients there.
    """
    if _Warned.once or (process_set.size() or 1) == 1 or rank() != process_set.ranks[0]:
        return
    optimizer = getattr(model, "optimizer", None)
    own_step = type(model).train_step is not keras.Model.train_step
    if optimizer is None or own_step or is_distributed(optimizer):
        return
    _Warned.once = True
    kind = type(optimizer).__name__
    warnings.warn(
        f"the model {model.name} was compiled with a plain {kind}: each rank trains a model of its "
        f"own; compile it with hvd.DistributedOptimizer({kind}(...))",
        stacklevel=2,
    )
