"""DistributedOptimizer for Keras 3, on its TensorFlow and its torch backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras

from ronde._calls.described import described
from ronde._calls.reduce_ops import Adasum, Average
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._training.gradients import check_passes
from ronde._training.mixing import mixed
from ronde.keras import _backend, _sharded, _watched_steps
from ronde.keras._watched_steps import facts

Variables = Sequence[Any]


class _Distributed:
    """The base class that DistributedOptimizer() adds before an optimizer's own class.

    Without accumulation apply() averages gradients at once. With it they accumulate on their rank
    and are averaged just before the update, which also clips them.
    """

    def apply(self: Any, grads: Variables, trainable_variables: Variables | None = None) -> None:
        """As the optimizer's; gradients are averaged over ranks first."""
        variables = self._trainable_variables
        if trainable_variables is not None:
            variables = list(trainable_variables)
        _watched_steps.look(self, variables)
        if self.gradient_accumulation_steps:
            pairs = [(g, v) for g, v in zip(grads, variables) if g is not None]
            self.__dict__["_ronde_variables"] = [v for _, v in pairs]
            super().apply(grads, trainable_variables)  # type: ignore[misc]
        else:
            averaged = self._ronde.reduce(list(grads), variables)
            step = partial(super().apply, averaged, trainable_variables)  # type: ignore[misc]
            _left_out_if_not_finite(self, averaged, variables, step)
        _watched_steps.stepped(self, variables)

    def _clip_gradients(self: Any, grads: Variables) -> Any:
        if self.gradient_accumulation_steps:
            grads = self._ronde.reduce(list(grads), self._ronde_variables)
            if self._ronde_sums:
                grads = [g * self.gradient_accumulation_steps for g in grads]
        return super()._clip_gradients(grads)  # type: ignore[misc]

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """As the optimizer's. The result averages gradients, with default options."""
        plain = _base_of(cls).from_config(config, custom_objects)
        return distribute(plain, _backend.options_class()())

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        """Raises TypeError: Keras would make a plain optimizer, which trains each rank alone."""
        raise TypeError(
            "a DistributedOptimizer of Keras cannot be pickled or copied; copy the optimizer "
            "before it is wrapped, or make one that is like it: "
            "type(optimizer).from_config(optimizer.get_config())"
        )

    def set_weight(self: Any, weight: float) -> None:
        """Gives this rank's gradients a weight in the average, in all steps from now on.

        It is the number of samples that the gradients are the mean of. The result then is the mean
        over the samples of all ranks, though batches differ. 0: the rank had none. All ranks call
        it. In compiled steps the optimizer must have had a weight before the first one.
        """
        self._ronde.set_weight(weight)

    def check_replicas(self: Any, extra: Mapping[str, Any] | None = None) -> bool:
        """Compares the variables and the optimizer's over ranks now. Collective.

        extra: further variables and tensors by name, the same names on all ranks. Returns True if
        all ranks have the same bits. Otherwise it acts as RONDE_REPLICA_CHECK says, and the log
        names ranks, tensor, step and values. Raises MismatchError on all ranks if that is "fail".
        """
        variables = self._trainable_variables if self.built else []
        return bool(self._ronde.replicas.check_now(partial(facts, self, variables), extra))

    def register_local_var(self: Any, var: Any) -> None:
        """Excludes this variable's gradient from averaging.

        Raises InvalidArgumentError with `shard`: a variable's owner gives it to all ranks.
        """
        if _sharded.is_sharded(self):
            raise InvalidArgumentError("a sharded optimizer has no variables of one rank")
        self._ronde.add_local(var)


def _left_out_if_not_finite(
    optimizer: Any, averaged: Variables, variables: Variables, step: Callable[[], None]
) -> None:
    """Steps, or not on any rank: averages are the same on all. Loss scales have their own check."""
    options = optimizer._ronde
    shared = [
        g
        for g, v in zip(averaged, variables)
        if g is not None and options.key(v) not in options.local
    ]
    if not shared or not options.skips_nonfinite() or hasattr(optimizer, "inner_optimizer"):
        step()
        return
    if not optimizer.built:  # no variables may be made inside of cond()
        with keras.name_scope(optimizer.name, caller=optimizer):
            optimizer.build(variables)
    values = [g.values if hasattr(g, "dense_shape") else g for g in shared]
    finite = [keras.ops.all(keras.ops.isfinite(value)) for value in values]
    keras.ops.cond(keras.ops.all(keras.ops.stack(finite)), step, lambda: None)


def is_distributed(optimizer: Any) -> bool:
    """True if DistributedOptimizer() made it."""
    return isinstance(optimizer, _Distributed)


def _base_of(made: type) -> Any:
    """The optimizer's class behind a distributed class."""
    return next(c for c in made.__mro__[1:] if not issubclass(c, _Distributed))


def distribute(optimizer: Any, options: Any, sums: bool = False) -> Any:
    """A distributed optimizer that shares the state and variables of `optimizer`."""
    given = {"_ronde": options, "_ronde_sums": sums, "_ronde_variables": []}
    return mixed(_Distributed, optimizer, **given)


def undistribute(optimizer: Any) -> tuple[Any, Any]:
    """(the optimizer as it was before distribute(), its options)."""
    base = _base_of(type(optimizer))
    plain = base.__new__(base)
    state = {k: v for k, v in optimizer.__dict__.items() if not k.startswith("_ronde")}
    plain.__dict__.update(state)
    return plain, optimizer._ronde


@described
def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | Sequence[Any] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
    weight: float | None = None,
    shard: str | None = None,
) -> Any:
    """Makes a Keras optimizer average its gradients over all ranks before each update.

    The result has the class of `optimizer` (and is saved as such), and shares its state. It adds
    set_weight(samples), register_local_var(variable) and check_replicas(). It serves
    model.compile() and custom loops alike. compile() turns jit_compile="auto" off, as XLA
    cannot compile collectives. It also wraps the LossScaleOptimizer of mixed precision, so that
    all ranks skip the same steps.

    name: accepted for Horovod scripts; gives the optimizer's name.
    compression: one of Compression, or rules by variables' paths, see ronde.torch's.
    sparse_as_dense: tf.IndexedSlices become dense before they are sent.
    gradient_predivide_factor: with Average, divides by it before the sum and by the rest after.
    op: Average, or any other that allreduce() knows but Adasum.
    backward_passes_per_step: gradients accumulate over these calls and are averaged over ranks once
    (the optimizer's gradient_accumulation_steps). average_aggregated_gradients: use their mean over
    the calls, not their sum.
    groups: lists of variables whose gradients are fused, or the number of groups (num_groups).
    weight: of this rank's gradients in the average, which set_weight() changes at each step: the
    number of its samples, where batches differ between ranks. On all ranks or on none.
    shard: "optimizer" deals the variables to ranks. Each rank keeps the state of its own alone,
    updates these, and then all get their values. The result adds memory_bytes() and shares no
    state with an optimizer that is built. See the guide to sharded optimizers.
    Raises InvalidArgumentError (a ValueError) for other optimizers and invalid values.
    """
    del device_dense, device_sparse
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidArgumentError(
            f"expected a keras.optimizers.Optimizer, not {type(optimizer).__name__}"
        )
    if is_distributed(optimizer):
        raise InvalidArgumentError("this optimizer is a DistributedOptimizer already")
    if op == Adasum:
        raise InvalidArgumentError(
            "op=Adasum is not supported with Keras optimizers, as in Horovod; "
            "DistributedGradientTape(op=Adasum) combines gradients by it"
        )
    check_passes(backward_passes_per_step)
    options = _backend.options_class()(
        compression or _backend.compression_class().none,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    if weight is not None:
        options.set_weight(weight)
    if backward_passes_per_step > 1:
        _accumulate(optimizer, backward_passes_per_step)
    sums = backward_passes_per_step > 1 and not average_aggregated_gradients
    if shard is not None:
        optimizer = _sharded.sharded(optimizer, shard, process_set)
    wrapped = distribute(optimizer, options, sums)
    if name is not None:
        wrapped.__dict__["name"] = name
    return wrapped


def _accumulate(optimizer: Any, passes: int) -> None:
    """Makes the optimizer accumulate gradients. Building it makes the variables for that."""
    if optimizer.gradient_accumulation_steps not in (None, passes):
        raise InvalidArgumentError(
            f"backward_passes_per_step={passes}, but the optimizer has "
            f"gradient_accumulation_steps={optimizer.gradient_accumulation_steps}"
        )
    if optimizer.built:
        raise InvalidArgumentError(
            "backward_passes_per_step needs an optimizer that is not built yet"
        )
    optimizer.gradient_accumulation_steps = passes


@described
def PartialDistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    groups: int | Sequence[Any] | None = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
    **named: Any,
) -> Any:
    """As DistributedOptimizer(), but the gradients of `local_layers` stay on their rank.

    local_layers: a layer, or several. `named`: other arguments of DistributedOptimizer().
    """
    wrapped = DistributedOptimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
        **named,
    )
    if local_layers is not None:
        wrapped.register_local_var(local_layers)
    return wrapped
