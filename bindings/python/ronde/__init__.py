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

from ronde import _core, _errors, _job, _numpy, _objects, _run
from ronde._collectives import (
    ANY_SOURCE,
)
from ronde._collectives import AVERAGE as Average
from ronde._collectives import BIT_AND as BitAnd
from ronde._collectives import BIT_OR as BitOr
from ronde._collectives import BIT_XOR as BitXor
from ronde._collectives import MAX as Max
from ronde._collectives import MIN as Min
from ronde._collectives import PRODUCT as Product
from ronde._collectives import SUM as Sum
from ronde._core import __version__
from ronde._errors import *
from ronde._handle import Handle
from ronde._job import *
from ronde._numpy import *
from ronde._objects import *
from ronde._run import *

from ronde import elastic  # isort: skip  it uses all of the above

# Errors name the user's line, not one in here.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(__file__)))

__all__ = [
    "ANY_SOURCE",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Handle",
    "Max",
    "Min",
    "Product",
    "Sum",
    "__version__",
    "elastic",
]
__all__ += _errors.__all__
__all__ += _job.__all__
__all__ += _numpy.__all__
__all__ += _objects.__all__
__all__ += _run.__all__
