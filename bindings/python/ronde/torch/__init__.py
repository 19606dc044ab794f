"""Ronde for PyTorch, with the names of `horovod.torch`.

A Horovod script runs after changing its import to `import ronde.torch as hvd`.
"""

from __future__ import annotations

import os as _os

import torch as _torch

from ronde import _core
from ronde._core import __version__
from ronde.torch import elastic, functions, mpi_ops
from ronde.torch.compression import Compression
from ronde.torch.functions import *
from ronde.torch.mpi_ops import *
from ronde.torch.onebit_adam import OneBitAdam
from ronde.torch.optimizer import DistributedOptimizer
from ronde.torch.sync_batch_norm import SyncBatchNorm

# Errors name the user's line, also where torch's autograd calls in between.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(_torch.__file__)))

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "OneBitAdam",
    "SyncBatchNorm",
    "__version__",
    "elastic",
    "mpi_ops",
]
__all__ += functions.__all__
__all__ += mpi_ops.__all__
