"""DistributedOptimizer for optimizers of TensorFlow 1, in graphs that sessions run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._tensorflow.gradients import Options

_Optimizer = tf.compat.v1.train.Optimizer


class V1Optimizer(_Optimizer):  # type: ignore[misc, valid-type]
    """Applies another optimizer's gradients, averaged over ranks."""

    def __init__(
        self, optimizer: Any, name: str | None, use_locking: bool, options: Options
    ) -> None:
        super().__init__(use_locking, name or f"Distributed{type(optimizer).__name__}")
        self._optimizer = optimizer
        self._options = options

    def compute_gradients(self, *args: Any, **named: Any) -> list[tuple[Any, Any]]:
        """As the optimizer's; every rank gets the average of the ranks' gradients."""
        pairs = self._optimizer.compute_gradients(*args, **named)
        variables = [variable for _, variable in pairs]
        reduced = self._options.reduce([gradient for gradient, _ in pairs], variables)
        return list(zip(reduced, variables))

    def apply_gradients(self, *args: Any, **named: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.apply_gradients(*args, **named)

    def get_slot(self, *args: Any, **named: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.get_slot(*args, **named)

    def get_slot_names(self, *args: Any, **named: Any) -> Sequence[str]:
        """As the optimizer's."""
        return self._optimizer.get_slot_names(*args, **named)  # type: ignore[no-any-return]

    def variables(self) -> Sequence[Any]:
        """As the optimizer's."""
        return self._optimizer.variables()  # type: ignore[no-any-return]
