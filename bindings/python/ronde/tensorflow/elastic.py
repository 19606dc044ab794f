"""Elastic jobs for TensorFlow, with the names of `horovod.tensorflow.elastic`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ronde._collectives import on_arrays
from ronde._errors import InvalidArgumentError
from ronde._samplers import ExactSampler
from ronde._snapshots.copies import Part
from ronde._snapshots.nested import Keep
from ronde.elastic import ObjectState, run
from ronde.keras.elastic import KerasState as TensorFlowKerasState
from ronde.tensorflow.functions import broadcast_variables

__all__ = ["ExactSampler", "TensorFlowKerasState", "TensorFlowState", "run"]


class TensorFlowState(ObjectState):
    """A state of tf.Variables, of Python objects, and of ExactSamplers."""

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        """variables: all global ones by default. session: that evaluates them in a graph.

        Raises InvalidArgumentError (a ValueError) if there are no variables.
        """
        self.variables = list(variables or tf.compat.v1.global_variables())
        if not self.variables:
            raise InvalidArgumentError(
                "variables: none are given, and TensorFlow 2 lists no global ones"
            )
        self.session = session or tf.compat.v1.get_default_session()
        self._eager = tf.executing_eagerly()
        super().__init__(**kwargs)

    def _further_parts(self) -> list[Part]:
        variables = Part("variables", self._take_variables, self._put_variables)
        return [*super()._further_parts(), variables]

    def _arrays(self) -> Sequence[Any]:
        if self._eager:
            return [np.asarray(variable.numpy()) for variable in self.variables]
        return [np.asarray(array) for array in self.session.run(self.variables)]

    def _take_variables(self, keep: Keep) -> Any:
        return [keep(array) for array in self._arrays()]

    def _put_variables(self, saved: Any) -> None:
        for variable, value in zip(self.variables, saved):
            if self._eager:
                variable.assign(value)
            else:
                variable.load(value, self.session)

    def _broadcast(self, root: int) -> None:
        if self._eager:
            broadcast_variables(self.variables, root)
        else:  # a session's graph may not grow
            handles = [
                on_arrays.broadcast_async(array, root, f"elastic.variable.{i}")
                for i, array in enumerate(self._arrays())
            ]
            self._put_variables([handle.wait() for handle in handles])
        super()._broadcast(root)
