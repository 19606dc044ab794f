"""Ronde: collective communication for data-parallel training.

    import numpy as np
    import ronde

    ronde.init()
    mean = ronde.allreduce(np.full(4, ronde.rank(), np.float32))
    ronde.shutdown()

Start it with `ronde run -np 2 python script.py`; without a launcher the job has one rank.
Collectives here work on NumPy arrays; `ronde.torch` has them for PyTorch.
"""

from __future__ import annotations

import os as _os

from ronde import _core
from ronde._collectives import (
    ANY_SOURCE,
    Handle,
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
from ronde._errors import (
    AbortedError,
    DuplicateNameError,
    Error,
    InternalError,
    InterruptedError,
    InvalidArgumentError,
    MismatchError,
    NotInitializedError,
    RankFailure,
    ResourceExhaustedError,
    StalledError,
    TimeoutError,
    UnavailableError,
    UnsupportedError,
    VersionMismatchError,
)
from ronde._job import (
    ProcessSet,
    add_process_set,
    cross_rank,
    cross_size,
    global_process_set,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    remove_process_set,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from ronde._numpy import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_async,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_async,
    gather,
    gather_async,
    grouped_allreduce,
    grouped_allreduce_async,
    join,
    poll,
    recv,
    recv_async,
    reduce,
    reduce_async,
    reduce_scatter,
    reduce_scatter_async,
    scatter,
    scatter_async,
    send,
    send_async,
    synchronize,
)
from ronde._objects import allgather_object, broadcast_object

# Errors name the user's line, not one in here.
_core.skip_frames_of(_os.path.dirname(_os.path.abspath(__file__)))

__all__ = [
    "ANY_SOURCE",
    "AbortedError",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
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
    "ResourceExhaustedError",
    "StalledError",
    "Sum",
    "TimeoutError",
    "UnavailableError",
    "UnsupportedError",
    "VersionMismatchError",
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
    "cross_rank",
    "cross_size",
    "gather",
    "gather_async",
    "global_process_set",
    "grouped_allreduce",
    "grouped_allreduce_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "poll",
    "rank",
    "recv",
    "recv_async",
    "reduce",
    "reduce_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "remove_process_set",
    "scatter",
    "scatter_async",
    "send",
    "send_async",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
    "__version__",
]
