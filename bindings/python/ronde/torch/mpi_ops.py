"""Collectives on torch tensors, with the names and meaning of `horovod.torch.mpi_ops`.

Tensors are dense, on the CPU, of dtype uint8, int8, int16, int32, int64, float16, bfloat16,
float32, float64, float8_e4m3fn, float8_e5m2, complex64, complex128 or bool; contiguous ones are
used in place. `x` blocks and
can be differentiated; `x_` works in place; `x_async` and `x_async_` return a handle for poll() and
synchronize(), and their tensors must stay untouched until then. Errors derive from
HorovodInternalError (a RuntimeError); wrong arguments and duplicate names are ValueErrors besides.

Common arguments: `name` makes operations of the same name meet (without it the k-th unnamed one of
each rank meet); `op` is Sum, Average, Min, Max or Product, and None means what `average` says:
Average by default; `prescale_factor` and `postscale_factor` multiply inputs and outputs;
`process_set` limits the operation to some ranks.
"""

from __future__ import annotations

from ronde import _collectives, _job
from ronde._collectives import AVERAGE as Average
from ronde._collectives import MAX as Max
from ronde._collectives import MIN as Min
from ronde._collectives import PRODUCT as Product
from ronde._collectives import SUM as Sum
from ronde._errors import Error as HorovodInternalError
from ronde._job import *
from ronde._numpy import barrier, poll, synchronize
from ronde.torch import _allreduce, _exchange, _reducescatter, _sparse
from ronde.torch._allreduce import *
from ronde.torch._exchange import *
from ronde.torch._reducescatter import *
from ronde.torch._sparse import *


def join(device: int = -1) -> int:
    """Says that this rank has no more data; blocks until all have; returns who joined last.

    Meanwhile it takes part in the others' allreduces with zeros. `device` is accepted for Horovod
    scripts and has no effect on CPU tensors.
    """
    del device
    return _collectives.join(_job.global_process_set)


__all__ = [
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "Product",
    "Sum",
    "barrier",
    "join",
    "poll",
    "synchronize",
]
__all__ += _job.__all__
__all__ += _allreduce.__all__
__all__ += _exchange.__all__
__all__ += _reducescatter.__all__
__all__ += _sparse.__all__
