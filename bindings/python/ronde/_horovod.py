"""The names that all of Horovod's APIs share."""

from __future__ import annotations

from ronde._errors import Error as HorovodInternalError
from ronde._job import *
from ronde._reduce_ops import ADASUM as Adasum
from ronde._reduce_ops import AVERAGE as Average
from ronde._reduce_ops import MAX as Max
from ronde._reduce_ops import MIN as Min
from ronde._reduce_ops import PRODUCT as Product
from ronde._reduce_ops import SUM as Sum

__all__ = [
    "Adasum",
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
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
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
