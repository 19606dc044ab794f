"""Ronde for TensorFlow 2, with the names of `horovod.tensorflow`.

A Horovod script runs after changing its import to `import ronde.tensorflow as hvd`.
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING

import tensorflow as _tf

import ronde.keras as _ronde_keras  # noqa: F401  installs hooks in keras.Model.compile()
from ronde import _core
from ronde._core import __version__ as __version__
from ronde._run.function import *
from ronde._tensorflow import errors
from ronde.tensorflow import elastic as elastic
from ronde.tensorflow import functions, gradient_tape, sessions
from ronde.tensorflow import mpi_ops as mpi_ops
from ronde.tensorflow.compression import Compression as Compression
from ronde.tensorflow.functions import *
from ronde.tensorflow.gradient_tape import *
from ronde.tensorflow.mpi_ops import *
from ronde.tensorflow.optimizer import DistributedOptimizer as DistributedOptimizer
from ronde.tensorflow.sessions import *
from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization as SyncBatchNormalization
from ronde.tensorflow.util import _executing_eagerly as _executing_eagerly
from ronde.tensorflow.util import gpu_available as gpu_available
from ronde.tensorflow.util import refs_to_vars as refs_to_vars
from ronde.tensorflow.util import vars_to_refs as vars_to_refs

# Errors name the user's line, also where TensorFlow or Keras calls in between.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(_tf.__file__)))
errors.install()

if not TYPE_CHECKING:
    __all__ = [
        "Compression",
        "DistributedOptimizer",
        "SyncBatchNormalization",
        "__version__",
        "elastic",
        "gpu_available",
        "mpi_ops",
        "refs_to_vars",
        "run",
        "vars_to_refs",
        *functions.__all__,
        *gradient_tape.__all__,
        *mpi_ops.__all__,
        *sessions.__all__,
    ]
