"""Collectives on torch tensors, with the names and meaning of `horovod.torch.mpi_ops`.

Tensors are dense, in host or CUDA memory, of integers of 8 to 64 bits, float16, bfloat16, float32,
float64, float8_e4m3fn, float8_e5m2, complex64, complex128 or bool. Contiguous
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

from typing import TYPE_CHECKING

from ronde import _horovod
from ronde._calls.described import described
from ronde._calls.reduce_ops import reduce_op
from ronde._collectives import calls
from ronde._collectives.on_arrays import barrier as barrier
from ronde._collectives.on_arrays import poll as poll
from ronde._collectives.on_arrays import synchronize as synchronize
from ronde._horovod import *
from ronde.common.basics import HorovodBasics
from ronde.torch._collectives import allreduce as allreduces
from ronde.torch._collectives import exchange, sparse
from ronde.torch._collectives import reducescatter as reducescatters
from ronde.torch._collectives.allreduce import *
from ronde.torch._collectives.exchange import *
from ronde.torch._collectives.reducescatter import *
from ronde.torch._collectives.sparse import *

_basics = HorovodBasics()  # Horovod's tests ask it


@described
def join(device: int = -1) -> int:
    """Joins: this rank has no more data. Blocks until all ranks have joined; returns the last.

    Until then this rank adds zeros to the other ranks' allreduces. `device` is accepted for Horovod
    scripts and has no effect on CPU tensors.
    """
    del device
    return calls.join()


def handle_average_backwards_compatibility(op: int | None, average: bool | None) -> int:
    """The reduce operation that Horovod's arguments `op` and `average` select together."""
    return reduce_op(average, op)


if not TYPE_CHECKING:
    __all__ = [
        "barrier",
        "join",
        "poll",
        "synchronize",
        *_horovod.__all__,
        *allreduces.__all__,
        *exchange.__all__,
        *reducescatters.__all__,
        *sparse.__all__,
    ]
