"""Ronde for Keras 3, with the names of `horovod.keras`; on its TensorFlow and its torch backend.

A Horovod script runs after changing its import to `import ronde.keras as hvd`.
"""

from __future__ import annotations

import importlib as _importlib
import os as _os
from typing import Any as _Any

import keras as _keras

from ronde import _core, _horovod, _numpy
from ronde._collectives import join as _join
from ronde._core import __version__
from ronde._horovod import *
from ronde._objects import allgather_object, broadcast_object
from ronde.keras import _backend, _compile, _values, _variables_call, callbacks, elastic
from ronde.keras._backend import broadcast_variables
from ronde.keras._load import load_model
from ronde.keras._optimizer import DistributedOptimizer, PartialDistributedOptimizer
from ronde.keras._values import *

if _backend.name() == "tensorflow":
    _importlib.import_module("ronde.tensorflow")  # so that model.fit() raises Ronde's errors

Compression: _Any = _backend.compression_class()
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
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "__version__",
    "allgather_object",
    "barrier",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "elastic",
    "join",
    "load_model",
]
__all__ += _horovod.__all__
__all__ += _values.__all__
