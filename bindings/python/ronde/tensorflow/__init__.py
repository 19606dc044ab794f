"""Ronde for TensorFlow 2, with the names of `horovod.tensorflow`.

A Horovod script runs after changing its import to `import ronde.tensorflow as hvd`.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os

import keras as _keras
import tensorflow as _tf

from ronde import _core
from ronde._core import __version__
from ronde._run import *
from ronde.tensorflow import _errors, elastic, mpi_ops
from ronde.tensorflow.compression import Compression
from ronde.tensorflow.functions import *
from ronde.tensorflow.gradient_tape import *
from ronde.tensorflow.mpi_ops import *
from ronde.tensorflow.optimizer import DistributedOptimizer
from ronde.tensorflow.sessions import *
from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization
from ronde.tensorflow.util import _executing_eagerly as _executing_eagerly
from ronde.tensorflow.util import (
    check_num_rank_power_of_2,
    gpu_available,
    handle_average_backwards_compatibility,
    refs_to_vars,
    vars_to_refs,
)

# Errors name the user's line, also where TensorFlow or Keras calls in between.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(_tf.__file__)))
_errors.install()
if _keras.backend.backend() == "tensorflow":
    _importlib.import_module("ronde.keras")  # installs hooks in keras.Model.compile()

__all__ = [
    "Adasum",
    "Average",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNormalization",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "check_num_rank_power_of_2",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "handle_average_backwards_compatibility",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mark",
    "mark_pass",
    "mark_span",
    "mark_step",
    "mpi_built",
    "mpi_enabled",
    "mpi_ops",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "refs_to_vars",
    "remove_process_set",
    "rocm_built",
    "run",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
    "vars_to_refs",
]
