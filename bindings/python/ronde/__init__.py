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

from ronde import _core
from ronde._collectives import ANY_SOURCE
from ronde._core import __version__
from ronde._errors import *
from ronde._handle import Handle
from ronde._job import *
from ronde._metrics import metrics
from ronde._numpy import *
from ronde._numpy_compression import Compression
from ronde._objects import *
from ronde._reduce_ops import ADASUM as Adasum
from ronde._reduce_ops import AVERAGE as Average
from ronde._reduce_ops import BIT_AND as BitAnd
from ronde._reduce_ops import BIT_OR as BitOr
from ronde._reduce_ops import BIT_XOR as BitXor
from ronde._reduce_ops import MAX as Max
from ronde._reduce_ops import MIN as Min
from ronde._reduce_ops import PRODUCT as Product
from ronde._reduce_ops import SUM as Sum
from ronde._reduce_ops import ReduceOp
from ronde._run import *

from ronde import elastic  # isort: skip  it uses all of the above

# Errors name the user's line, not one in here.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(__file__)))

__all__ = [
    "ANY_SOURCE",
    "AbortedError",
    "Adasum",
    "ArgumentTypeError",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Compression",
    "DeviceArray",
    "DuplicateNameError",
    "Error",
    "Handle",
    "InternalError",
    "InterruptedError",
    "InvalidArgumentError",
    "Max",
    "Min",
    "MismatchError",
    "NotInitializedError",
    "ProcessSet",
    "Product",
    "RankFailure",
    "ReduceOp",
    "ResourceExhaustedError",
    "StalledError",
    "Sum",
    "TimeoutError",
    "UnavailableError",
    "UnsupportedError",
    "VersionMismatchError",
    "__version__",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_async",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_async",
    "broadcast_object",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "empty",
    "gather",
    "gather_async",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allreduce",
    "grouped_allreduce_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mark",
    "mark_pass",
    "mark_span",
    "mark_step",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "recv",
    "recv_async",
    "reduce",
    "reduce_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "remove_process_set",
    "rocm_built",
    "run",
    "scatter",
    "scatter_async",
    "send",
    "send_async",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
