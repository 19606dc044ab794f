"""Ronde for TensorFlow 2, with the names of `horovod.tensorflow`.

A Horovod script runs after changing its import to `import ronde.tensorflow as hvd`.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os

import keras as _keras
import tensorflow as _tf

from ronde import _core, _run
from ronde._core import __version__
from ronde._run import *
from ronde.tensorflow import _errors, elastic, functions, gradient_tape, mpi_ops
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.functions import *
from ronde.tensorflow.gradient_tape import *
from ronde.tensorflow.mpi_ops import *
from ronde.tensorflow.optimizer import DistributedOptimizer
from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization
from ronde.tensorflow.util import _executing_eagerly as _executing_eagerly
from ronde.tensorflow.util import (
    check_num_rank_power_of_2,
    gpu_available,
    handle_average_backwards_compatibility,
)

# Errors name the user's line, also where TensorFlow or Keras calls in between.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(_tf.__file__)))
_errors.install()
if _keras.backend.backend() == "tensorflow":
    _importlib.import_module("ronde.keras")  # installs hooks in keras.Model.compile()

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "SyncBatchNormalization",
    "__version__",
    "check_num_rank_power_of_2",
    "elastic",
    "gpu_available",
    "handle_average_backwards_compatibility",
    "mpi_ops",
]
__all__ += _run.__all__
__all__ += functions.__all__
__all__ += gradient_tape.__all__
__all__ += mpi_ops.__all__
