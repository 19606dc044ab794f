"""The classes for Keras' backend."""

from __future__ import annotations

from typing import Any

import keras

from ronde._errors import UnsupportedError


def name() -> str:
    """ "tensorflow" or "torch". Raises UnsupportedError for others."""
    backend = str(keras.backend.backend())
    if backend not in ("tensorflow", "torch"):
        raise UnsupportedError(
            f"Keras runs on {backend}; ronde.keras serves its backends tensorflow and torch"
        )
    return backend


def options_class() -> Any:
    """The class that averages gradients."""
    if name() == "tensorflow":
        from ronde.tensorflow._gradients import Options
    else:
        from ronde.keras._gradients_torch import Options  # type: ignore[assignment]
    return Options


def compression_class() -> Any:
    """Compression, for tensors of the backend."""
    if name() == "tensorflow":
        from ronde.tensorflow.compression import Compression
    else:
        from ronde.torch.compression import Compression  # type: ignore[assignment]
    return Compression
