"""DistributedOptimizer with the arguments of `horovod.tensorflow`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ronde._job import ProcessSet, global_process_set
from ronde._reduce_ops import AVERAGE as Average
from ronde.tensorflow.compression import Compression


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | Sequence[Any] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
    weight: float | None = None,
) -> Any:
    """As ronde.keras.DistributedOptimizer(), for Keras optimizers, with another order of arguments.

    `use_locking` and the devices are accepted for Horovod scripts. Optimizers of TensorFlow 1
    (tf.compat.v1.train) raise InvalidArgumentError.
    """
    from ronde.keras._optimizer import DistributedOptimizer as distributed

    del use_locking
    return distributed(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
        weight,
    )
