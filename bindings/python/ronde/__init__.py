"""Ronde: collective communication for data-parallel training.

    import numpy as np
    import ronde

    ronde.init()
    mean = ronde.allreduce(np.full(4, ronde.rank(), np.float32))
    ronde.shutdown()

Start it with `ronde run -np 2 python script.py`; without a launcher the job has one rank.
Collectives here work on NumPy's arrays and all that offer DLPack or `__cuda_array_interface__`;
`ronde.torch` has them for PyTorch.
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING

from ronde import _core, _errors
from ronde._calls import reduce_ops as _reduce_ops
from ronde._calls.handle import Handle as Handle
from ronde._calls.reduce_ops import *
from ronde._collectives import objects as _objects
from ronde._collectives import on_arrays as _on_arrays
from ronde._collectives.array_compression import Compression as Compression
from ronde._collectives.calls import ANY_SOURCE as ANY_SOURCE
from ronde._collectives.objects import *
from ronde._collectives.on_arrays import *
from ronde._core import __version__ as __version__
from ronde._errors import *
from ronde._job.runtime import metrics as metrics
from ronde._membership import joining as _joining
from ronde._membership.joining import *
from ronde._run.function import *

from ronde import elastic as elastic  # isort: skip  it uses all of the above

# Errors name the user's line, not one in here.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(__file__)))

if not TYPE_CHECKING:
    __all__ = [
        "ANY_SOURCE",
        "Compression",
        "Handle",
        "__version__",
        "elastic",
        "metrics",
        "run",
        *_errors.__all__,
        *_reduce_ops.__all__,
        *_joining.__all__,
        *_objects.__all__,
        *_on_arrays.__all__,
    ]
