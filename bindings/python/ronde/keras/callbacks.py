"""Callbacks for model.fit() on several ranks, with the names of `horovod.keras.callbacks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from ronde._calls.argument_checks import MODEL_VARIABLES, check, several
from ronde._calls.reduce_ops import Min
from ronde._collectives import on_arrays
from ronde._errors import InvalidArgumentError
from ronde._job.marks import mark_step
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._job.runtime import rank, size
from ronde._training.owners import of_one_rank
from ronde.keras import _metrics
from ronde.keras._backend import broadcast_variables
from ronde.keras._sharded import check_file, forget, gather, is_sharded, writer
from ronde.keras._undistributed import warn_if_undistributed

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Gives all ranks the root's model and optimizer at the start of training.

    Broadcasts before the first batch if all ranks have built their model then, else after it.
    """

    def __init__(
        self,
        root_rank: int,
        device: str = "",
        local_variables: Any = None,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """root_rank: a rank of the job. local_variables: variables that are not broadcast."""
        check(root_rank=root_rank, process_set=process_set)
        super().__init__()
        self.root_rank = root_rank
        self._process_set = process_set
        given = [] if local_variables is None else local_variables
        self._local = {id(variable) for variable in several(given, MODEL_VARIABLES)}
        self.broadcast_done = False

    def register_local_source(self, source: Any) -> None:
        """Excludes this variable."""
        self._local.add(id(source))

    def on_train_begin(self, logs: Any = None) -> None:
        """Broadcasts if all ranks have built their model. Warns if it is not distributed."""
        warn_if_undistributed(self.model, self._process_set)
        self.broadcast_done = False
        built = np.array([self.model.built and self.model.optimizer is not None], np.int32)
        name = "keras.broadcast.built"
        if on_arrays.allreduce(built, name, Min, process_set=self._process_set)[0]:
            self._build_optimizer()
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Broadcasts after the first batch, unless it has been done; marks the step's end."""
        if not self.broadcast_done:
            self._broadcast()
        mark_step()

    def _build_optimizer(self) -> None:
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)

    def _broadcast(self) -> None:
        variables = [*self.model.variables, *self.model.optimizer.variables]
        unique = {id(v): v for v in variables if id(v) not in self._local}
        shared = [
            v for v in unique.values() if "seed_generator" not in v.path and not of_one_rank(v)
        ]
        broadcast_variables(shared, self.root_rank, self._process_set)
        self.broadcast_done = True


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages the epoch's metrics over ranks. Put it before callbacks that use them.

    Numbers, vectors, and dictionaries of them; other values stay.
    """

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        """`device` is accepted for Horovod scripts."""
        check(process_set=process_set)
        super().__init__()
        self._process_set = process_set

    def on_train_begin(self, logs: Any = None) -> None:
        """Warns of a model that is not distributed."""
        warn_if_undistributed(self.model, self._process_set)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Replaces every number and vector in `logs` by its mean over ranks.

        Raises MismatchError on all ranks, naming a metric that some ranks do not have.
        """
        _metrics.average({} if logs is None else logs, self._process_set)


class LearningRateScheduleCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate to initial_lr * multiplier(epoch) from start_epoch to end_epoch."""

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        """Takes a factor, or a function of the epoch.

        staircase: sets it once an epoch; otherwise every batch, at fractions of epochs.
        momentum_correction: scales the optimizer's momentum with the learning rate.
        steps_per_epoch: batches of an epoch, if Keras does not know them.
        Source: Goyal et al., Accurate, Large Minibatch SGD, 2017.
        """
        super().__init__()
        if initial_lr is None:
            raise InvalidArgumentError("initial_lr is needed")
        check(initial_lr=initial_lr, start_epoch=start_epoch, end_epoch=end_epoch)
        check(steps_per_epoch=steps_per_epoch)
        if not callable(multiplier):
            check(multiplier=multiplier)
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) else lambda _: multiplier
        self.staircase = staircase or not callable(multiplier)
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Reads the number of an epoch's batches."""
        self.steps_per_epoch = self.steps_per_epoch or (self.params or {}).get("steps")
        if not self.staircase and not self.steps_per_epoch:
            raise InvalidArgumentError("steps_per_epoch is needed: Keras does not know it here")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Records the epoch."""
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the learning rate of this batch, if it changes."""
        ended = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or ended:
            return
        if self.staircase:
            if batch == 0:
                self._set(self.multiplier(self.current_epoch))
        else:
            self._set(self.multiplier(self.current_epoch + batch / (self.steps_per_epoch or 1)))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Adds the learning rate to the metrics."""
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)

    def _set(self, factor: float) -> None:
        optimizer = self.model.optimizer
        before, now = float(optimizer.learning_rate), self.initial_lr * factor
        optimizer.learning_rate = now
        if self.momentum_correction and before > 0 and before != now:
            _scale_momentum(optimizer, now / before)


def _scale_momentum(optimizer: Any, ratio: float) -> None:
    """Scales SGD's momentum to the new learning rate."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(inner, "momentum", 0):
        return
    for velocity in getattr(inner, "momentums", None) or []:
        if velocity is not None:  # None: another rank has it
            velocity.assign(velocity * ratio)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from initial_lr / size() to initial_lr over the first epochs."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        """initial_lr: the learning rate of all ranks together. verbose: 1 prints the end."""
        check(warmup_epochs=warmup_epochs, steps_per_epoch=steps_per_epoch)

        def multiplier(epoch: float) -> float:
            # At the end of a batch, so that the warm-up's last batch reaches the full rate.
            reached = epoch + 1.0 / (self.steps_per_epoch or 1)
            return 1.0 / size() * (reached * (size() - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Prints that the warm-up is done."""
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose > 0:
            rate = float(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]
    """Keeps the best model so far in a file that rank 0 writes.

    Put MetricAverageCallback before it, so that `monitor` is the average over ranks. With a sharded
    optimizer the first rank of its process set decides and writes; the others give it their part.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        filepath: str = "best.keras",
    ) -> None:
        """As keras.callbacks.ModelCheckpoint(save_best_only=True)."""
        super().__init__(
            filepath,
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )

    def on_train_begin(self, logs: Any = None) -> None:
        """Raises InvalidArgumentError for a file that cannot keep a sharded optimizer."""
        super().on_train_begin(logs)
        allowed = ".weights.h5" if self.save_weights_only else ".keras"
        check_file(self.model.optimizer, self.filepath, allowed)

    def _save_model(self, epoch: Any, batch: Any, logs: Any) -> None:
        optimizer = self.model.optimizer
        if not is_sharded(optimizer) and rank() != 0:
            return
        if self.monitor_op is None:  # before the first epoch's end
            self._set_monitor_op()
        try:
            super()._save_model(epoch, batch, logs)
        finally:
            forget(optimizer)

    def _should_save_model(self, epoch: Any, batch: Any, logs: Any, filepath: Any) -> bool:
        """The writer decides, and it alone saves what all have gathered."""
        optimizer = self.model.optimizer
        wanted = rank() == writer(optimizer) and bool(
            super()._should_save_model(epoch, batch, logs, filepath)
        )
        gather(optimizer, wanted)
        return wanted
