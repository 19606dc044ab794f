"""Collectives on torch tensors, with the names and meaning of `horovod.torch.mpi_ops`.

Tensors are dense, in host or CUDA memory, of dtype uint8, int8, int16, int32, int64, float16,
bfloat16, float32, float64, float8_e4m3fn, float8_e5m2, complex64, complex128 or bool. Contiguous
ones are used in place. `x` blocks and can be differentiated; `x_` works in place; `x_async` and
`x_async_` return a handle for poll() and synchronize(), and their tensors must not change until
then. Errors derive from HorovodInternalError (a RuntimeError). Errors for wrong arguments and
duplicate names are ValueErrors too.

Common arguments: operations of the same `name` match (without it the k-th unnamed one of each rank
match); `op` is Sum, Average, Min, Max, Product or Adasum (of whole tensors: allreduces of
float16, bfloat16, float32 and float64), and None means what `average` says: Average by default;
`prescale_factor` and `postscale_factor` multiply inputs and outputs;
`process_set` limits the operation to some ranks.
"""

from __future__ import annotations

from ronde import _collectives
from ronde._described import described
from ronde._horovod import *
from ronde._numpy import barrier, poll, synchronize
from ronde._reduce_ops import reduce_op
from ronde.common.basics import HorovodBasics
from ronde.torch._allreduce import *
from ronde.torch._exchange import *
from ronde.torch._reducescatter import *
from ronde.torch._sparse import *

_basics = HorovodBasics()  # Horovod's tests ask it


@described
def join(device: int = -1) -> int:
    """Joins: this rank has no more data. Blocks until all ranks have joined; returns the last.

    Until then this rank adds zeros to the other ranks' allreduces. `device` is accepted for Horovod
    scripts and has no effect on CPU tensors.
    """
    del device
    return _collectives.join()


def handle_average_backwards_compatibility(op: int | None, average: bool | None) -> int:
    """The reduce operation that Horovod's arguments `op` and `average` select together."""
    return reduce_op(average, op)


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
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
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
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
