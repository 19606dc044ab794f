"""Averages gradients over ranks: what the gradient tape and the optimizers share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._collectives import AVERAGE, SUM, set_id
from ronde._errors import InvalidArgumentError
from ronde._job import ProcessSet, global_process_set
from ronde.tensorflow import _names, _ops, _variables, mpi_ops
from ronde.tensorflow._tracing import as_written
from ronde.tensorflow.compression import Compression


@dataclasses.dataclass
class Options:
    """How gradients travel; the arguments of DistributedOptimizer of these names."""

    compression: Any = Compression.none
    sparse_as_dense: bool = False
    op: int = AVERAGE
    gradient_predivide_factor: float = 1.0
    num_groups: int = 0
    groups: int | Sequence[Any] | None = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    local: set[Any] = dataclasses.field(default_factory=set)  # keys of variables left alone

    def __post_init__(self) -> None:
        """Raises InvalidArgumentError for values that do not go together."""
        if self.gradient_predivide_factor != 1.0 and self.op != AVERAGE:
            raise InvalidArgumentError(
                "gradient_predivide_factor not supported with op other than Average"
            )
        groups = self.num_groups if self.groups is None else self.groups
        if isinstance(groups, int) and groups < 0:
            raise InvalidArgumentError("groups and num_groups must not be negative")
        if not isinstance(groups, (int, list, tuple)):
            raise InvalidArgumentError(
                f"groups is a number or a list of lists of variables, not {type(groups).__name__}"
            )
        self._groups = groups

    def add_local(self, source: Any) -> None:
        """Leaves the gradients of these variables (or of a layer's) on this rank."""
        self.local.update(_variables.key(v) for v in _variables.trainable(source))

    @as_written
    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients, averaged (or as `op` says) over ranks; None stays None."""
        size = self.process_set.size() or 1
        if self.sparse_as_dense:
            gradients = [
                tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients
            ]
        if size == 1:
            return list(gradients)
        results = list(gradients)
        shared = [i for i, g in enumerate(gradients) if g is not None]
        if self.local:
            shared = [i for i in shared if _variables.key(variables[i]) not in self.local]
            self._scale_local(results, set(shared), size)
        for part in self._parts(shared, gradients, variables):
            for i, reduced in zip(part, self._travel(part, gradients)):
                results[i] = reduced
        return results

    def _scale_local(self, results: list[Any], shared: set[int], size: int) -> None:
        if not self.scale_local_gradients:
            return
        for i, gradient in enumerate(results):
            if gradient is not None and i not in shared:
                results[i] = _scaled(gradient, 1.0 / size)

    def _parts(
        self, shared: list[int], gradients: Sequence[Any], variables: Sequence[Any]
    ) -> list[list[int]]:
        """Positions that are submitted by one call, in the same order on all ranks."""
        sparse = [[i] for i in shared if isinstance(gradients[i], tf.IndexedSlices)]
        dense = [i for i in shared if not isinstance(gradients[i], tf.IndexedSlices)]
        if not dense:
            return sparse
        if isinstance(self._groups, int):
            if self._groups == 0:
                # A kernel of its own for each, so that each leaves when it is ready; in eager mode
                # they are all ready, and one call costs less.
                return sparse + ([dense] if tf.executing_eagerly() else [[i] for i in dense])
            width = -(-len(dense) // self._groups)
            return sparse + [dense[i : i + width] for i in range(0, len(dense), width)]
        return sparse + _listed_parts(self._groups, dense, variables)

    def _travel(self, part: list[int], gradients: Sequence[Any]) -> list[Any]:
        """The reduced gradients of one part."""
        given = [gradients[i] for i in part]
        names = [f"gradient.{i}" for i in part]
        if isinstance(given[0], tf.IndexedSlices):
            return [
                mpi_ops.allreduce(
                    given[0],
                    op=self.op,
                    compression=self.compression,
                    name=names[0],
                    process_set=self.process_set,
                )
            ]
        op, scale = self._op_and_scale()
        if self._groups != 0:
            names = [f"{names[0]}+{len(part) - 1}"]
        traced = [_names.in_graph(name) for name in names]
        members = set_id(self.process_set)
        return mpi_ops.compressed(
            given,
            self.compression,
            lambda sent: _ops.allreduce(sent, traced, op, scale, members),
        )

    def _op_and_scale(self) -> tuple[int, tuple[float, float]]:
        factor = self.gradient_predivide_factor
        if factor == 1.0:
            return self.op, (1.0, 1.0)
        return SUM, (1.0 / factor, factor / (self.process_set.size() or 1))


def _listed_parts(
    groups: Sequence[Any], dense: list[int], variables: Sequence[Any]
) -> list[list[int]]:
    """Positions as the lists of variables group them; the rest one by one."""
    position = {_variables.key(variables[i]): i for i in dense}
    parts = []
    for group in groups:
        keys = [_variables.key(variable) for variable in group]
        parts.append([position.pop(k) for k in keys if k in position])
    return [part for part in parts if part] + [[i] for i in sorted(position.values())]


def _scaled(gradient: Any, factor: float) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
