"""Ronde for Keras 3, with the names of `horovod.keras`; on its TensorFlow and its torch backend.

A Horovod script runs after changing its import to `import ronde.keras as hvd`.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING

import keras as _keras

from ronde import _core, _horovod
from ronde._collectives import on_arrays
from ronde._collectives.calls import join as _join
from ronde._collectives.objects import allgather_object as allgather_object
from ronde._collectives.objects import broadcast_object as broadcast_object
from ronde._compression.choice import AnyCompression as _AnyCompression
from ronde._core import __version__ as __version__
from ronde._horovod import *
from ronde.keras import _backend, _compile, _values, _variables_call
from ronde.keras import callbacks as callbacks
from ronde.keras import elastic as elastic
from ronde.keras._backend import broadcast_global_variables as broadcast_global_variables
from ronde.keras._backend import broadcast_variables as broadcast_variables
from ronde.keras._compile import load_model as load_model
from ronde.keras._compile import save_model as save_model
from ronde.keras._optimizer import DistributedOptimizer as DistributedOptimizer
from ronde.keras._optimizer import PartialDistributedOptimizer as PartialDistributedOptimizer
from ronde.keras._values import *

if _backend.name() == "tensorflow":
    # So that model.fit() raises Ronde's errors. The other framework may not be installed.
    _importlib.import_module("ronde._tensorflow.errors").install()

Compression: type[_AnyCompression] = _backend.compression_class()
barrier = on_arrays.barrier
# Must come before a `model.compile(optimizer=DistributedOptimizer(...))` looks up compile().
_compile.install()
_variables_call.install()

# Errors name the user's line, also where Keras calls in between.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(_keras.__file__)))


def join() -> int:
    """Joins: this rank has no more data. Blocks until all have joined; returns the last."""
    return _join()


if not TYPE_CHECKING:
    __all__ = [
        "Compression",
        "DistributedOptimizer",
        "PartialDistributedOptimizer",
        "__version__",
        "allgather_object",
        "barrier",
        "broadcast_global_variables",
        "broadcast_object",
        "broadcast_variables",
        "callbacks",
        "elastic",
        "join",
        "load_model",
        "save_model",
        *_horovod.__all__,
        *_values.__all__,
    ]
