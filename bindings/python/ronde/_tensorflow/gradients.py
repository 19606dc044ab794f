"""Averages gradients over ranks, for the gradient tape and the optimizers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._collectives.calls import set_id
from ronde._compression.choice import for_gradient
from ronde._compression.rules import Trained
from ronde._tensorflow import collectives
from ronde._tensorflow import names as _names
from ronde._tensorflow import variables as _variables
from ronde._tensorflow.tracing import as_written
from ronde._training.gradients import GradientOptions, checked_weight, in_runs


class Options(GradientOptions):
    """The options for sending gradients: DistributedOptimizer's arguments of these names."""

    @staticmethod
    def key(variable: Any) -> Any:
        """The variable's key: equal for the same variable only."""
        return _variables.key(variable)

    def set_weight(self, weight: Any) -> None:
        """As the base class's. Graphs that are traced already read the variable that it is in."""
        self.check_weighted()
        if not tf.is_tensor(weight):
            weight = checked_weight(weight)
        if isinstance(self.weight, tf.Variable):
            self.weight.assign(tf.cast(weight, tf.float64))
            return
        with tf.init_scope():
            self.weight = tf.Variable(weight, trainable=False, dtype=tf.float64)

    @as_written
    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients, averaged (or combined by `op`) over ranks; None stays None.

        A rank outside of the process set keeps its own.
        """
        if self.sparse_as_dense:
            gradients = [
                tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients
            ]
        if self.alone:
            return list(gradients)
        results = list(gradients)
        shared = [i for i, g in enumerate(gradients) if g is not None]
        if self.local:
            shared = [i for i in shared if self.key(variables[i]) not in self.local]
            self._scale_local(results, set(shared))
        self.look_at_rules(_path(i, variable) for i, variable in enumerate(variables))
        used = {i: self._compression_of(i, gradients[i], variables[i]) for i in shared}
        program = f"gradients of variables {_ranges(shared)} of {len(gradients)}"
        for whole in self._parts(shared, gradients, variables):
            for number, part in enumerate(_apart(whole, used)):
                given = [gradients[i] for i in part]
                sparse = isinstance(given[0], tf.IndexedSlices)
                names, priorities = self._names(part, number, len(whole) > 1, sparse)
                reduced = self._travel(given, names, priorities, used[part[0]], program)
                for i, gradient in zip(part, reduced):
                    results[i] = gradient
        return results

    def _compression_of(self, place: int, gradient: Any, variable: Any) -> Any:
        dimensions = 2 if gradient.shape.rank is None else gradient.shape.rank
        name = _path(place, variable)
        elements = gradient.shape.num_elements()  # None: unknown
        dtype = gradient.dtype
        one = Trained(name, dimensions, elements, dtype, dtype.is_floating, variable)
        return for_gradient(one, self.compression)

    def _scale_local(self, results: list[Any], shared: set[int]) -> None:
        if not self.scale_local_gradients:
            return
        for i, gradient in enumerate(results):
            if gradient is not None and i not in shared:
                results[i] = _divided(gradient, self.process_set)

    def _parts(
        self, shared: list[int], gradients: Sequence[Any], variables: Sequence[Any]
    ) -> list[list[int]]:
        """Positions of gradients that one call submits, in the same order on all ranks."""
        sparse = [[i] for i in shared if isinstance(gradients[i], tf.IndexedSlices)]
        dense = [i for i in shared if not isinstance(gradients[i], tf.IndexedSlices)]
        if not dense:
            return sparse
        if isinstance(self.wanted_groups, int):
            if self.wanted_groups == 0:
                # A kernel of its own for each, so that each leaves when it is ready; in eager mode
                # they are all ready, and one costs less. It comes first: it tells ranks that lack
                # the gradient of some variable.
                if tf.executing_eagerly():
                    return [dense, *sparse]
                return sparse + in_runs(dense, lambda i: _size(gradients[i]))
            width = -(-len(dense) // self.wanted_groups)
            return sparse + [dense[i : i + width] for i in range(0, len(dense), width)]
        return sparse + _listed_parts(self.wanted_groups, dense, variables)

    def _names(
        self, part: list[int], number: int, grouped: bool, sparse: bool
    ) -> tuple[list[str], list[int]]:
        """The names and priorities of part number `number`."""
        # The next forward pass needs these first.
        if tf.executing_eagerly() and self.wanted_groups == 0 and not sparse:
            return [f"gradients.{number}"], [-part[0]]
        if self.wanted_groups != 0 or grouped:
            return [f"gradient.{_ranges(part)}"], [-min(part)]
        return [f"gradient.{i}" for i in part], [-i for i in part]

    def _travel(
        self,
        given: list[Any],
        names: list[str],
        priorities: list[int],
        compression: Any,
        program: str,
    ) -> list[Any]:
        """The reduced gradients of one part."""
        if isinstance(given[0], tf.IndexedSlices):
            collectives.check_unweighted(self.weight)
            return [
                collectives.reduce_slices(
                    given[0], compression, self.op, (1.0, 1.0), names[0], self.process_set
                )
            ]
        members = set_id(self.process_set)
        traced = [_names.in_graph(name, members) for name in names]
        op, scale = self.op_and_scale()
        return collectives.reduce_named(
            given,
            traced,
            compression,
            op,
            scale,
            self.process_set,
            priorities,
            program,
            self.weight,
        )


def _ranges(places: Sequence[int]) -> str:
    """Ascending numbers in short: "0, 2-5"."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1][1:] = [place]
        else:
            runs.append([place])
    return ", ".join("-".join(map(str, run)) for run in runs)[:200]


def _apart(part: list[int], used: dict[int, Any]) -> list[list[int]]:
    """The positions of a part by their compression."""
    kinds: dict[int, list[int]] = {}
    for i in part:
        kinds.setdefault(id(used[i]), []).append(i)
    return list(kinds.values())


def _path(place: int, variable: Any) -> str:
    """The text that patterns of names match."""
    return getattr(variable, "path", None) or _name_of(variable) or f"gradient.{place}"


def _name_of(variable: Any) -> str | None:
    """The name of a tf.Variable; tensors have no lasting name."""
    return str(variable.name) if isinstance(variable, tf.Variable) else None


def _size(gradient: Any) -> tuple[Any, float]:
    """The dtype and the bytes; infinite if the graph does not know them."""
    shape = gradient.shape
    elements = math.prod(shape.as_list()) if shape.is_fully_defined() else math.inf
    return gradient.dtype, elements * gradient.dtype.size


def _listed_parts(
    groups: Sequence[Any], dense: list[int], variables: Sequence[Any]
) -> list[list[int]]:
    """Positions by the lists of variables; the rest one by one."""
    position = {_variables.key(variables[i]): i for i in dense}
    parts = []
    for group in groups:
        keys = [_variables.key(variable) for variable in group]
        parts.append([position.pop(k) for k in keys if k in position])
    return [part for part in parts if part] + [[i] for i in sorted(position.values())]


def _divided(gradient: Any, process_set: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = collectives.divided(gradient.values, process_set)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return collectives.divided(gradient, process_set)
