"""Broadcasts for graphs that sessions run, as of scripts for TensorFlow 1."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde._errors import InvalidArgumentError
from ronde.tensorflow.functions import broadcast_variables

__all__ = ["BroadcastGlobalVariablesHook", "broadcast_global_variables"]


def broadcast_global_variables(root_rank: int) -> Any:
    """An operation that gives every rank the root's values of the graph's global variables.

    Raises InvalidArgumentError (a RuntimeError) in eager mode, where there are none.
    """
    if tf.executing_eagerly():
        raise InvalidArgumentError(
            "broadcast_global_variables() does not work in eager mode, which has no global "
            "variables: call broadcast_variables(model.variables, root_rank) and the same for "
            "the optimizer's"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Gives every rank the root's global variables when a MonitoredSession has been created."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        """device: where the operation runs."""
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Adds the operation to the graph."""
        if self.bcast_op is None or self.bcast_op.graph != tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Broadcasts."""
        del coord
        session.run(self.bcast_op)
