"""Makes `horovod.tensorflow` and its modules the very modules of `ronde.tensorflow`."""

import sys

import ronde.tensorflow
import ronde.tensorflow.keras
from ronde.tensorflow import compression, functions, mpi_ops, sync_batch_norm, util

for _module in (compression, functions, mpi_ops, sync_batch_norm, util, ronde.tensorflow.keras):
    sys.modules[_module.__name__.replace("ronde", "horovod", 1)] = _module
sys.modules["horovod.tensorflow.keras.callbacks"] = ronde.tensorflow.keras.callbacks
sys.modules[__name__] = ronde.tensorflow
