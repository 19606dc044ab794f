"""Collectives on torch tensors, with the names and meaning of `horovod.torch.mpi_ops`.

Tensors are dense, in host or CUDA memory, of dtype uint8, int8, int16, int32, int64, float16,
bfloat16, float32, float64, float8_e4m3fn, float8_e5m2, complex64, complex128 or bool. Contiguous
ones are used in place. `x` blocks and can be differentiated; `x_` works in place; `x_async` and
`x_async_` return a handle for poll() and synchronize(), and their tensors must not change until
then. Errors derive from HorovodInternalError (a RuntimeError). Errors for wrong arguments and
duplicate names are ValueErrors too.

Common arguments: operations of the same `name` match (without it the k-th unnamed one of each rank
match); `op` is Sum, Average, Min, Max or Product, and None means what `average` says:
Average by default; `prescale_factor` and `postscale_factor` multiply inputs and outputs;
`process_set` limits the operation to some ranks.
"""

from __future__ import annotations

from ronde import _collectives, _horovod
from ronde._horovod import *
from ronde._numpy import barrier, poll, synchronize
from ronde.torch import _allreduce, _exchange, _reducescatter, _sparse
from ronde.torch._allreduce import *
from ronde.torch._exchange import *
from ronde.torch._reducescatter import *
from ronde.torch._sparse import *


def join(device: int = -1) -> int:
    """Joins: this rank has no more data. Blocks until all ranks have joined; returns the last.

    Until then this rank adds zeros to the other ranks' allreduces. `device` is accepted for Horovod
    scripts and has no effect on CPU tensors.
    """
    del device
    return _collectives.join()


__all__ = [
    "barrier",
    "join",
    "poll",
    "synchronize",
]
__all__ += _horovod.__all__
__all__ += _allreduce.__all__
__all__ += _exchange.__all__
__all__ += _reducescatter.__all__
__all__ += _sparse.__all__
