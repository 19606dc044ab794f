"""Makes `horovod.tensorflow` and its modules the very modules of `ronde.tensorflow`."""

import sys

import ronde.tensorflow
import ronde.tensorflow.keras
import ronde.tensorflow.keras.elastic
from ronde.tensorflow import compression, elastic, functions, mpi_ops, sync_batch_norm, util

_keras = ronde.tensorflow.keras
for _module in (
    compression,
    elastic,
    functions,
    mpi_ops,
    sync_batch_norm,
    util,
    _keras,
    _keras.elastic,
):
    sys.modules[_module.__name__.replace("ronde", "horovod", 1)] = _module
sys.modules["horovod.tensorflow.keras.callbacks"] = ronde.tensorflow.keras.callbacks
sys.modules[__name__] = ronde.tensorflow
setattr(mpi_ops, "broadcast_", functions.broadcast_)  # noqa: B010  Horovod has it there
