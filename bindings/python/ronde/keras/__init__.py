"""Ronde for Keras 3, with the names of `horovod.keras`; on its TensorFlow and its torch backend.

A Horovod script runs after changing its import to `import ronde.keras as hvd`.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os

import keras as _keras

from ronde import _core, _numpy
from ronde._collectives import join as _join
from ronde._compression import AnyCompression as _AnyCompression
from ronde._core import __version__
from ronde._horovod import *
from ronde._objects import allgather_object, broadcast_object
from ronde.keras import _backend, _compile, _variables_call, callbacks, elastic
from ronde.keras._backend import broadcast_global_variables, broadcast_variables
from ronde.keras._load import load_model
from ronde.keras._optimizer import DistributedOptimizer, PartialDistributedOptimizer
from ronde.keras._values import *

if _backend.name() == "tensorflow":
    _importlib.import_module("ronde.tensorflow")  # so that model.fit() raises Ronde's errors

Compression: type[_AnyCompression] = _backend.compression_class()
barrier = _numpy.barrier
# Must come before a `model.compile(optimizer=DistributedOptimizer(...))` looks up compile().
_compile.install()
_variables_call.install()

# Errors name the user's line, also where Keras calls in between.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(_keras.__file__)))


def join() -> int:
    """Joins: this rank has no more data. Blocks until all have joined; returns the last."""
    return _join()


__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_model",
    "local_rank",
    "local_size",
    "mark",
    "mark_pass",
    "mark_span",
    "mark_step",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
