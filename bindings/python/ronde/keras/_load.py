"""Loads a saved model, to continue training with a distributed optimizer."""

from __future__ import annotations

from typing import Any

import keras

from ronde.keras import _compile
from ronde.keras._optimizer import DistributedOptimizer


def load_model(
    filepath: Any,
    custom_optimizers: Any = None,
    custom_objects: Any = None,
    compression: Any = None,
    legacy_opts: bool = False,
) -> Any:
    """As keras.models.load_model(); its optimizer, with its state, becomes a DistributedOptimizer.

    custom_optimizers: classes of optimizers that Keras does not know.
    custom_objects: as in Keras. `legacy_opts` is accepted for Horovod scripts.
    """
    del legacy_opts
    known = {optimizer.__name__: optimizer for optimizer in custom_optimizers or []}
    model = keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if model.optimizer is not None:
        model.optimizer = DistributedOptimizer(model.optimizer, compression=compression)
        _compile.prepare(model)
    return model
