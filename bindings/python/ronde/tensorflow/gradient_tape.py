"""DistributedGradientTape: a tf.GradientTape whose gradients are averaged over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ronde._calls.reduce_ops import Average
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._tensorflow.gradients import Options
from ronde._tensorflow.tracing import as_written
from ronde._tensorflow.variables import key, name_of, native
from ronde._training.mixing import mixed
from ronde._training.replicas import Fact
from ronde.tensorflow.compression import Compression

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape"]


class _DistributedGradientTape(tf.GradientTape):  # type: ignore[misc]
    """The class of DistributedGradientTape()'s result; shares the wrapped tape's records."""

    _ronde: Options

    @as_written
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: Any = False,
        **named: Any,
    ) -> Any:
        """As tf.GradientTape.gradient(); every rank gets the average of the ranks' gradients.

        use_generic_names: accepted for Horovod scripts; `named`: TensorFlow's other arguments.
        """
        if isinstance(use_generic_names, tf.UnconnectedGradients):  # TensorFlow's fourth argument
            named["unconnected_gradients"] = use_generic_names
        gradients = super().gradient(target, sources, output_gradients, **named)
        _look_at_first_step(self._ronde, tf.nest.flatten(sources))
        flat = tf.nest.flatten(gradients, expand_composites=False)
        reduced = self._ronde.reduce(flat, tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(sources, reduced)

    def register_local_source(self, source: Any) -> None:
        """Excludes this variable's gradient from averaging."""
        self._ronde.add_local(source)

    def get_local_and_global_gradients(
        self,
        target: Any,
        sources: Sequence[Any],
        output_gradients: Any = None,
        use_generic_names: bool = False,
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """As gradient(): (pairs of a local source and its gradient, pairs of all the others)."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names)
        pairs = list(zip(sources, gradients))
        local = [key(source) in self._ronde.local for source in sources]
        return (
            [pair for pair, here in zip(pairs, local) if here],
            [pair for pair, here in zip(pairs, local) if not here],
        )


def _look_at_first_step(options: Options, sources: Sequence[Any]) -> None:
    """Checks in the second eager call that the variables are alike on all ranks.

    Each step has a tape of its own, so the first variable keeps the count.
    """
    if options.alone or not tf.executing_eagerly():
        return
    shared = [source for source in sources if key(source) not in options.local]
    variables = [(name_of(s), native(s)) for s in shared if isinstance(native(s), tf.Variable)]
    if not variables:
        return
    first = variables[0][1].__dict__.setdefault("_ronde_first_step", options.first_step)
    if first.pending:
        first.check(lambda: (Fact(name, variable.numpy()) for name, variable in variables))


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
    weight: Any = None,
) -> Any:
    """A tape like `gradtape` whose gradient() gives the average over all ranks.

    compression: one of Compression, or rules by variables' names, see ronde.torch's.
    sparse_as_dense: tf.IndexedSlices become dense before they are sent; otherwise slices of one
    index are averaged.
    gradient_predivide_factor: with Average, divides by it before the sum and by the rest after.
    groups: lists of variables whose gradients are fused, or the number of groups (num_groups).
    scale_local_gradients: gradients of local sources are divided by the number of ranks, which
    gives them the weight of the others.
    weight: of this rank's gradients in the average, a number or a tensor of one: the number of its
    samples, where batches differ between ranks. On all ranks or on none; of dense gradients.
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
        weight,
    )
    if not isinstance(gradtape, tf.GradientTape):
        raise InvalidArgumentError(f"expected a tf.GradientTape, not {type(gradtape).__name__}")
    return mixed(_DistributedGradientTape, gradtape, _ronde=options)


@as_written
def PartialDistributedGradientTape(
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
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """As DistributedGradientTape(), but the gradients of `local_layers` stay on their rank.

    local_layers: a Keras layer, or several.
    """
    layers = list(local_layers) if isinstance(local_layers, (list, tuple)) else [local_layers]
    for layer in layers if local_layers is not None else []:
        if not isinstance(layer, keras.layers.Layer):
            raise InvalidArgumentError(
                f"local_layers: a {type(layer).__name__} is no keras.layers.Layer; call the "
                "result's register_local_source() for a variable"
            )
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for layer in layers:
        tape.register_local_source(layer)
    return tape
