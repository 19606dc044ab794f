"""DistributedGradientTape: a tf.GradientTape whose gradients are averaged over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._collectives import AVERAGE as Average
from ronde._errors import InvalidArgumentError
from ronde._job import ProcessSet, global_process_set
from ronde.tensorflow._gradients import Options
from ronde.tensorflow._tracing import as_written
from ronde.tensorflow._variables import key
from ronde.tensorflow.compression import Compression

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape"]


class _DistributedGradientTape(tf.GradientTape):  # type: ignore[misc]
    """The class of DistributedGradientTape()'s result; shares the wrapped tape's records."""

    _ronde: Options

    @as_written
    def gradient(self, target: Any, sources: Any, *arguments: Any, **named: Any) -> Any:
        """As tf.GradientTape.gradient(); every rank gets the average of the ranks' gradients."""
        gradients = super().gradient(target, sources, *arguments, **named)
        flat = tf.nest.flatten(gradients, expand_composites=False)
        reduced = self._ronde.reduce(flat, tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(sources, reduced)

    def register_local_source(self, source: Any) -> None:
        """Excludes this variable's gradient from averaging."""
        self._ronde.add_local(source)

    def get_local_and_global_gradients(
        self, gradients: Sequence[Any], sources: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """(gradients of local sources, gradients of the others), None in each other's places."""
        local = [key(source) in self._ronde.local for source in sources]
        return (
            [g if here else None for g, here in zip(gradients, local)],
            [None if here else g for g, here in zip(gradients, local)],
        )


@as_written
def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Any] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A tape like `gradtape` whose gradient() gives the average over all ranks.

    compression: one of Compression, or rules by variables' names, see ronde.torch's.
    sparse_as_dense: tf.IndexedSlices become dense before they are sent; otherwise the ranks' slices
    are joined.
    gradient_predivide_factor: with Average, divides by it before the sum and by the rest after.
    groups: lists of variables whose gradients are fused, or the number of groups (num_groups).
    scale_local_gradients: gradients of local sources are divided by the number of ranks, which
    gives them the weight of the others.
    Raises InvalidArgumentError (a ValueError) for values that exclude each other.
    """
    del device_dense, device_sparse
    options = Options(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    if not isinstance(gradtape, tf.GradientTape):
        raise InvalidArgumentError(f"expected a tf.GradientTape, not {type(gradtape).__name__}")
    base = type(gradtape)
    made: Any = type(base.__name__, (_DistributedGradientTape, base), {})
    tape = made.__new__(made)
    tape.__dict__.update(gradtape.__dict__)
    tape._ronde = options
    return tape


@as_written
def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    *arguments: Any,
    local_layers: Any = None,
    **named: Any,
) -> Any:
    """As DistributedGradientTape(), but the gradients of `local_layers` stay on their rank."""
    tape = DistributedGradientTape(gradtape, *arguments, **named)
    if local_layers is not None:
        tape.register_local_source(local_layers)
    return tape
