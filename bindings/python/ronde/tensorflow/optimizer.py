"""DistributedOptimizer with the arguments of `horovod.tensorflow`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._calls.reduce_ops import Adasum, Average
from ronde._errors import UnsupportedError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._tensorflow.gradients import Options
from ronde._training.gradients import check_passes
from ronde._training.mixing import mixed
from ronde.keras._optimizer import DistributedOptimizer as distributed
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
    shard: str | None = None,
) -> Any:
    """As ronde.keras.DistributedOptimizer(), for Keras optimizers, with another order of arguments.

    Optimizers of TensorFlow 1 (tf.compat.v1.train) work in graphs that sessions run. They raise
    UnsupportedError for op=Adasum, a weight, shard, and backward_passes_per_step above 1.
    `use_locking` is theirs. The devices are accepted for Horovod scripts.
    """
    del device_dense, device_sparse
    sending: dict[str, Any] = {
        "compression": compression,
        "sparse_as_dense": sparse_as_dense,
        "op": op,
        "gradient_predivide_factor": gradient_predivide_factor,
        "num_groups": num_groups,
        "groups": groups,
        "process_set": process_set,
        "scale_local_gradients": scale_local_gradients,
    }
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        _check_v1(op, backward_passes_per_step, weight, shard)
        named = name or f"Distributed{type(optimizer).__name__}"
        given = {"_ronde": Options(**sending), "_name": named, "_use_locking": use_locking}
        return mixed(_V1Optimizer, optimizer, **given)
    return distributed(
        optimizer,
        name,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        weight=weight,
        shard=shard,
        **sending,
    )


class _V1Optimizer:
    """Mixed into an optimizer of TensorFlow 1, in graphs that sessions run."""

    _ronde: Options

    def compute_gradients(self, *args: Any, **named: Any) -> list[tuple[Any, Any]]:
        """As the optimizer's; every rank gets the average of the ranks' gradients."""
        pairs = super().compute_gradients(*args, **named)  # type: ignore[misc]
        variables = [variable for _, variable in pairs]
        reduced = self._ronde.reduce([gradient for gradient, _ in pairs], variables)
        return list(zip(reduced, variables))


def _check_v1(op: int, passes: int, weight: float | None, shard: str | None) -> None:
    """Raises for what an optimizer of TensorFlow 1 cannot be given."""
    check_passes(passes)
    refused = (
        ("op=Adasum", op == Adasum, "Average and Sum"),
        (f"backward_passes_per_step={passes}", passes > 1, "1"),
        (f"weight={weight}", weight is not None, "None"),
        (f"shard={shard!r}", shard is not None, "None"),
    )
    for given, is_given, allowed in refused:
        if is_given:
            raise UnsupportedError(
                f"{given} with an optimizer of TensorFlow 1; allowed there: {allowed}; Keras "
                "optimizers take more"
            )
