"""Elastic jobs for Keras, with the names of `horovod.keras.elastic`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from ronde._calls.argument_checks import check_has, is_whole, shown
from ronde._errors import InvalidArgumentError, UnsupportedError
from ronde._samplers import ExactSampler
from ronde._snapshots.copies import Part
from ronde._snapshots.nested import Keep
from ronde.elastic import ObjectState, run
from ronde.keras._backend import broadcast_variables
from ronde.keras._epoch_length import forget_limit, limit_next_epoch
from ronde.keras._sharded import is_sharded

__all__ = [
    "CommitStateCallback",
    "ExactSampler",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class VariablesState(ObjectState):
    """A state of variables, of Python objects, and of ExactSamplers."""

    _variables: Callable[[], Sequence[Any]]
    _send: Callable[[Sequence[Any], int], Any]

    def _further_parts(self) -> list[Part]:
        variables = Part("variables", self._take_variables, self._put_variables)
        return [*super()._further_parts(), variables]

    def _take_variables(self, keep: Keep) -> Any:
        return [keep(np.asarray(_values(v))) for v in self._variables()]

    def _put_variables(self, saved: Any) -> None:
        for index, variable in enumerate(self._variables()):
            # An optimizer's variables may be newer than the copy; they begin as zeros.
            value = saved[index] if index < len(saved) else np.zeros_like(_values(variable))
            variable.assign(value)

    def _broadcast(self, root: int) -> None:
        variables = [v for v in self._variables() if "seed_generator" not in _path(v)]
        if variables:
            self._send(variables, root)
        super()._broadcast(root)


def _values(variable: Any) -> Any:
    if isinstance(variable, keras.Variable):
        return keras.ops.convert_to_numpy(variable.value)
    return variable.numpy()


def _path(variable: Any) -> str:
    return str(getattr(variable, "path", ""))


class KerasState(VariablesState):
    """A state of a Keras model and its optimizer, of Python objects, and of ExactSamplers."""

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        """optimizer: that of the model's compile() by default. `backend` has no effect.

        Raises InvalidArgumentError (a ValueError) for a model that is not built.
        """
        check_has("variables", "model", model, "a keras.Model")
        if optimizer is not None:
            check_has("variables", "optimizer", optimizer, "a keras.optimizers.Optimizer")
        if not model.built:
            raise InvalidArgumentError(
                f"the model {model.name} is not built; call model.build(input_shape) first"
            )
        self.model = model
        self.optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
        self.backend = backend
        if is_sharded(self.optimizer):
            raise UnsupportedError(
                "a KerasState cannot keep a sharded optimizer: ranks that are gone take their part "
                "of its state along; leave out shard= in elastic jobs"
            )
        if self.optimizer is not None and not getattr(self.optimizer, "built", True):
            self.optimizer.build(model.trainable_variables)
        self._send = broadcast_variables
        super().__init__(**kwargs)

    def _variables(self) -> Sequence[Any]:
        given = self.optimizer
        own = given.variables if given is not None else []
        return [*self.model.variables, *(own() if callable(own) else own)]


def _checked_state(state: Any, attribute: str) -> Any:
    """The state. Raises ArgumentTypeError for anything without the attribute."""
    wanted = f"one with `{attribute}`, such as KerasState(model, batch=0, epoch=0)"
    check_has(attribute, "state", state, wanted)
    return state


class CommitStateCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Commits the state after every `batches_per_commit` batches, and after each epoch.

    Put it last, so that it commits what the other callbacks have changed.
    """

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        """state: a state of an elastic job."""
        super().__init__()
        self.state = _checked_state(state, "commit")
        if not is_whole(batches_per_commit) or batches_per_commit < 1:
            given = f"batches_per_commit={shown(batches_per_commit)}"
            raise InvalidArgumentError(f"{given}; allowed: whole numbers from 1")
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins to count anew: ranks that have joined begin then."""
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits if it is time."""
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits."""
        self.commit()

    def commit(self) -> None:
        """Commits the state."""
        self.state.commit()


class UpdateBatchStateCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps `state.batch`, the number of the epoch's batches that are done.

    An epoch that goes on after a reset has the remaining batches alone.
    """

    def __init__(self, state: Any) -> None:
        """state: has the attribute `batch`."""
        super().__init__()
        self.state = _checked_state(state, "batch")
        self.steps_per_epoch: int | None = None
        self._done_before = 0  # batches of this epoch, before fit() was called

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins anew."""
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Leaves out the batches that were done before a reset."""
        self._done_before = self.state.batch
        if not self.params.get("steps"):
            return
        if self.steps_per_epoch is None:
            self.steps_per_epoch = self.params.get("steps")
        remaining = max((self.steps_per_epoch or 0) - self.state.batch, 0)
        self.params["steps"] = remaining
        if self.state.batch:
            limit_next_epoch(remaining)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts the batch."""
        self.state.batch = self._done_before + batch + 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Begins the next epoch at its first batch."""
        self.state.batch = self._done_before = 0
        forget_limit()


class UpdateEpochStateCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps `state.epoch`, the number of epochs over all resets; Keras counts from 0 in each."""

    def __init__(self, state: Any) -> None:
        """state: has the attribute `epoch`."""
        super().__init__()
        self.state = _checked_state(state, "epoch")
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Takes the epoch from which this call of fit() goes on."""
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts the epoch."""
        self.state.epoch = self.initial_epoch + epoch + 1
