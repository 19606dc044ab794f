"""Ronde for PyTorch, with the names of `horovod.torch`.

A Horovod script runs after changing its import to `import ronde.torch as hvd`.
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING

import torch as _torch

from ronde import _core
from ronde._core import __version__ as __version__
from ronde.torch import elastic as elastic
from ronde.torch import functions
from ronde.torch import mpi_ops as mpi_ops
from ronde.torch._sharded.state import merge_sharded_states as merge_sharded_states
from ronde.torch.compression import Compression as Compression
from ronde.torch.functions import *
from ronde.torch.mpi_ops import *
from ronde.torch.onebit_adam import OneBitAdam as OneBitAdam
from ronde.torch.optimizer import DistributedOptimizer as DistributedOptimizer
from ronde.torch.sharded_embedding import ShardedEmbedding as ShardedEmbedding
from ronde.torch.sharded_muon import ShardedMuon as ShardedMuon
from ronde.torch.sync_batch_norm import SyncBatchNorm as SyncBatchNorm

# Errors name the user's line, also where torch's autograd calls in between.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(_torch.__file__)))

if not TYPE_CHECKING:
    __all__ = [
        "Compression",
        "DistributedOptimizer",
        "OneBitAdam",
        "ShardedEmbedding",
        "ShardedMuon",
        "SyncBatchNorm",
        "__version__",
        "elastic",
        "merge_sharded_states",
        "mpi_ops",
        *functions.__all__,
        *mpi_ops.__all__,
    ]
