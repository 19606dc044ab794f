"""The optimizer that averages gradients over ranks while backward runs."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ronde import _core
from ronde._codecs import wire_of
from ronde._collectives import Call, set_id
from ronde._compression import warn_of_idle
from ronde._errors import Error, InvalidArgumentError
from ronde._gradients import GradientOptions, check_passes, checked_weight
from ronde._handle import together
from ronde._job import mark_pass, mark_step, on_epoch
from ronde._reduce_ops import AVERAGE as Average
from ronde.torch._adapter import check_tensors, collectives
from ronde.torch._flat import FlatBucket, flatten_plain
from ronde.torch._gradients import (
    Bucket,
    Gradient,
    Parameter,
    by_compression,
    end_leftovers,
    forget_leftovers,
    hook,
    leave_over,
    make_buckets,
    parameter_names,
    shares_memory,
    show_zeros,
)
from ronde.torch._preparing import Preparing
from ronde.torch._sparse import sparse_allreduce_async
from ronde.torch.compression import Compression


class AveragingOptimizer(Preparing, torch.optim.Optimizer):
    """Mixed into the class of the user's optimizer; see DistributedOptimizer()."""

    def _distribute(
        self,
        named_parameters: Iterable[tuple[str, Parameter]] | None,
        backward_passes_per_step: int,
        flat_gradients: bool,
        options: GradientOptions,
        weight: float | None,
    ) -> None:
        self._parameter_names = parameter_names(list(self._parameters()), named_parameters)
        warn_of_idle(options.compression, self._parameter_names.values())
        self._compression = options.compression
        self._op = options.op
        self._weight: float | None = None
        self._under_way = False
        if weight is not None:
            self.set_weight(weight)
        factor = options.gradient_predivide_factor  # 1 unless op is Average
        self._scale = (1.0 / factor, factor)
        self._sparse_as_dense = options.sparse_as_dense
        # The one optimizer of torch that takes no dense gradients.
        self._sparse_again = self._sparse_as_dense and isinstance(self, torch.optim.SparseAdam)
        self._flat_gradients = flat_gradients
        self.process_set = process_set = options.process_set
        self._should_synchronize = True
        self._synchronized = False
        self._call_site = _core.call_site()
        self.backward_passes_per_step = backward_passes_per_step
        set_id(process_set)
        self._communicates = bool(process_set.included()) and (process_set.size() or 1) > 1
        self._gradients: dict[Parameter, Gradient] = {}
        self._buckets = []
        self._hooks: list[Any] = []
        self._count = -1  # number of parameters when _idle (those not trained) was made
        self._idle: list[Parameter] = []
        self._under_way = False
        self._in_backward = False
        self._in_flight = {}
        self._groups = options.wanted_groups
        self._train([p for p in self._parameters() if p.requires_grad], self._groups)
        leave_over(self, self._buckets)
        all_optimizers.add(self)

    def _parameters(self) -> Iterator[Parameter]:
        return (p for group in self.param_groups for p in group["params"])

    def _train(self, parameters: Sequence[Parameter], groups: Any = None) -> None:
        """Averages the gradients of these parameters from now on."""
        if self._communicates:
            check_tensors(parameters)
        made = [
            Gradient(self._parameter_names[p], p, self.backward_passes_per_step) for p in parameters
        ]
        self._gradients.update((gradient.parameter, gradient) for gradient in made)
        buckets = [
            part
            for bucket in make_buckets(made, groups)
            for part in by_compression(bucket, self._compression)
        ]
        if self._communicates:
            if self._flat_gradients:
                buckets = flatten_plain(buckets, bool(groups), self._sparse_as_dense)
            for parameter in parameters:
                show_zeros(parameter)
        self._prioritize(buckets)
        self._buckets += buckets
        if self._communicates:
            of = AveragingOptimizer
            self._hooks += [
                hook(g, self, of._on_gradient, of._on_bucket, isinstance(g.bucket, FlatBucket))
                for g in made
            ]

    def _prioritize(self, buckets: Sequence[Bucket]) -> None:
        """Gives the highest priority to what the next forward pass needs first."""
        order = {parameter: -place for place, parameter in enumerate(self._parameters())}
        for bucket in buckets:
            bucket.priority = max(order[gradient.parameter] for gradient in bucket.gradients)

    def _begin_epoch(self) -> None:
        """Forgets what was in flight when the ranks of an elastic job changed."""
        self._under_way = self._in_backward = self._synchronized = False
        self._should_synchronize = True
        self._in_flight.clear()
        several = bool(self.process_set.included()) and (self.process_set.size() or 1) > 1
        if several and not self._communicates:
            self._communicates = True
            self._gradients.clear()
            self._buckets.clear()
            self._train([p for p in self._parameters() if p.requires_grad], self._groups)
        for bucket in self._buckets:
            bucket.handle = None
            bucket.contexts = []
            bucket.missing = len(bucket.gradients)
            bucket.after_first = bucket.missing - 1
        for gradient in self._gradients.values():
            gradient.passes_left = self.backward_passes_per_step

    def _train_new_ones(self) -> None:
        """Adds new and unfrozen parameters, the same on all ranks."""
        count = sum(len(group["params"]) for group in self.param_groups)
        if count != self._count:
            self._count = count
            self._idle = [p for p in self._parameters() if p not in self._gradients]
        new = [p for p in self._idle if p.requires_grad]
        for parameter in new:
            self._parameter_names.setdefault(parameter, f"added.{len(self._parameter_names)}")
        if new:
            self._train(new)
            self._count = -1

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Averages over ranks after this many backward passes; gradients accumulate until then."""
        check_passes(passes)
        self.backward_passes_per_step = passes
        for gradient in self._gradients.values():
            gradient.passes_left = passes

    def set_weight(self, weight: float) -> None:
        """Gives this rank's gradients a weight in the average, in all backward passes from now on.

        It is the number of samples that the gradients are the mean of. The result then is the mean
        over the samples of all ranks, though batches differ. 0: the rank had none. All ranks call
        it, before backward.
        """
        if self._op != Average:
            raise InvalidArgumentError("a weight needs op=Average")
        if self._under_way:
            raise InvalidArgumentError("set_weight() is for before backward(), not after it")
        self._weight = checked_weight(weight)

    def _on_gradient(self, gradient: Gradient) -> None:
        """Called in backward for a gradient that needs more than counting."""
        passes_left = gradient.passes_left - 1
        if passes_left < 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to "
                "step(). Increase backward_passes_per_step to accumulate gradients locally."
            )
        gradient.passes_left = passes_left
        bucket = gradient.bucket
        if isinstance(bucket, FlatBucket):
            bucket.collect(gradient)
        if passes_left:
            return
        bucket.missing -= 1
        self._on_bucket(bucket)

    def _on_bucket(self, bucket: Bucket) -> None:
        """Called in backward for the first and for the last gradient of a bucket."""
        if not self._in_backward:
            self._in_backward = True
            self._mark_pass("backward")
        if bucket.missing == 0:
            self._submit(bucket)

    def _mark_pass(self, name: str) -> None:
        """Marks the backward pass in the timeline, if a step has only one."""
        if self._communicates and self.backward_passes_per_step == 1:
            mark_pass(name)

    def _submit(self, bucket: Bucket) -> None:
        end_leftovers()
        self._under_way = True
        if isinstance(bucket, FlatBucket):
            tensors = [bucket.ready()]
            views = [collectives.view(tensors[0])]
        else:
            tensors, views = self._prepared(bucket)
        if bucket.gradients[0].sparse_dims:
            if self._weight is not None:
                raise InvalidArgumentError("sparse gradients take no weight; give sparse_as_dense")
            bucket.handle = sparse_allreduce_async(
                tensors[0], bucket.name, self._op, self.process_set, bucket.compression
            )
            return
        wire = wire_of(bucket.compression)
        where = (bucket.priority, self._call_site, wire)
        call = Call(bucket.name, self.process_set, self._op, self._scale, -1, *where, self._weight)
        if wire or bucket.compression is Compression.none:
            bucket.handle = collectives.reduce_in_place(tensors, call, views)
            return
        pairs = [bucket.compression.compress(tensor) for tensor in tensors]
        sent = [tensor for tensor, _ in pairs]
        bucket.contexts = [context for _, context in pairs]
        bucket.handle = collectives.allreduce(False, sent, sent, call)

    def synchronize(self) -> None:
        """Waits until all gradients are averaged over ranks; step() does so by itself.

        Gradients that backward did not make on this rank are sent as they are, or as zeros.
        Raises InvalidArgumentError if a gradient was changed while it was in flight.
        """
        self._in_backward = False
        self._mark_pass("")
        self._train_new_ones()
        problems: list[Error] = []
        if self._communicates:
            for bucket in self._buckets:
                if bucket.handle is None:
                    self._submit(bucket)
            awaited = together(bucket.handle for bucket in self._buckets if bucket.handle)
            for bucket in self._buckets:
                try:
                    self._finish(bucket, awaited)
                except Error as problem:
                    problems.append(problem)
        self._under_way = False
        self._in_flight.clear()
        for gradient in self._gradients.values():
            gradient.passes_left = self.backward_passes_per_step
        self._synchronized = not problems
        if problems:
            raise problems[0]
        mark_step()
        self._mark_pass("update")

    def _finish(self, bucket: Bucket, awaited: _core.Together) -> None:
        handle, bucket.handle = bucket.handle, None
        bucket.missing = len(bucket.gradients)  # fewer than before if a sparse one has left
        bucket.after_first = bucket.missing - 1
        assert handle is not None
        outputs = handle.wait(together=awaited)
        if isinstance(bucket, FlatBucket):
            self._finish_flat(bucket, outputs[0])
            return
        if bucket.gradients[0].sparse_dims:
            bucket.gradients[0].parameter.grad = outputs
            return
        plain = not bucket.contexts and not self._sparse_again
        for index, (gradient, averaged) in enumerate(zip(bucket.gradients, outputs)):
            current = gradient.parameter.grad
            if plain and current is averaged and current._version == gradient.version:
                continue
            if current is None:
                continue
            if current._version != gradient.version and not shares_memory(current):
                raise InvalidArgumentError(_CHANGED.format(name=gradient.name))
            if bucket.contexts:
                averaged = bucket.compression.decompress(averaged, bucket.contexts[index])
            if averaged is not current:
                current.copy_(averaged)
            if self._sparse_again:
                gradient.parameter.grad = current.to_sparse(1)

    def _finish_flat(self, bucket: FlatBucket, averaged: torch.Tensor) -> None:
        if bucket.changed():
            names = ", ".join(gradient.name for gradient in bucket.gradients[:3])
            raise InvalidArgumentError(_CHANGED.format(name=f"one of {names}, ..."))
        if bucket.contexts:
            bucket.flat.copy_(bucket.compression.decompress(averaged, bucket.contexts[0]))

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In this context step() does not synchronize; call synchronize() before it."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Averages the gradients over ranks, then steps as the wrapped optimizer does.

        A closure is called by the wrapped optimizer; gradients are averaged after each call.
        """
        synchronizes = self._should_synchronize
        if synchronizes and closure is None:
            if self._synchronized:
                warnings.warn(_TWICE, stacklevel=2)
            self.synchronize()
        self._synchronized = False
        if closure is None or not synchronizes:
            result = super().step(closure)
            self._mark_pass(_BEFORE_BACKWARD)
            return result

        def averaged() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        result = super().step(averaged)
        self._synchronized = False
        self._mark_pass(_BEFORE_BACKWARD)
        return result

    # torch wraps step() of each class in its hooks: the wrapped optimizer's own has them already.
    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """As the wrapped optimizer's; an error while gradients are in flight."""
        if self._under_way:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause "
                "a race condition."
            )
        end_leftovers()  # they write to gradients
        super().zero_grad(*arguments, **options)
        for bucket in self._buckets:
            if isinstance(bucket, FlatBucket):
                bucket.reset()


all_optimizers: weakref.WeakSet[Any] = weakref.WeakSet()


def _begin_epoch() -> None:
    forget_leftovers()
    for optimizer in list(all_optimizers):
        optimizer._begin_epoch()


on_epoch.append(_begin_epoch)
_BEFORE_BACKWARD = "data and forward"  # passes cannot be told apart
_TWICE = (
    "optimizer.step() called without optimizer.skip_synchronize() context after "
    "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
    "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code."
)
_CHANGED = (
    "the gradient of {name} was changed while its average over ranks was being computed; call "
    "optimizer.synchronize() before changing gradients (clipping, GradScaler.unscale_(), ...), and "
    "step within optimizer.skip_synchronize()"
)
