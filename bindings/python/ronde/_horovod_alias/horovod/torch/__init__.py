"""Makes `horovod.torch` and its modules the very modules of `ronde.torch`."""

import sys

import ronde.torch
from ronde.torch import compression, elastic, functions, mpi_ops, optimizer, sync_batch_norm

for _module in (
    *(compression, functions, mpi_ops, optimizer, sync_batch_norm),
    *(elastic, elastic.sampler, elastic.state),
):
    sys.modules[_module.__name__.replace("ronde", "horovod", 1)] = _module
sys.modules[__name__] = ronde.torch
