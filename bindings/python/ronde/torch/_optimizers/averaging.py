"""The optimizer that averages gradients over ranks while backward runs."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ronde import _core
from ronde._calls.handle import Handle
from ronde._calls.reduce_ops import Average
from ronde._codecs import wire_of
from ronde._collectives.calls import Call, set_id
from ronde._compression.choice import warn_of_idle
from ronde._errors import DuplicateNameError, Error, InvalidArgumentError
from ronde._job.marks import mark_pass, mark_step
from ronde._membership.joining import on_epoch
from ronde._training.gradients import GradientOptions, check_passes, checked_weight
from ronde.torch._collectives.adapter import collectives
from ronde.torch._collectives.sparse import start_sparse
from ronde.torch._optimizers.facts import Comparing, facts, first_step, replica_check
from ronde.torch._optimizers.findings import Findings
from ronde.torch._optimizers.flat import FlatBucket, flatten_plain, watch_incoming
from ronde.torch._optimizers.gradients import (
    Bucket,
    Gradient,
    Parameter,
    await_quietly,
    by_compression,
    end_leftovers,
    forget_leftovers,
    hook,
    leave_over,
    leave_over_at_end,
    make_buckets,
    name_new_ones,
    name_tensor,
    parameter_names,
    shares_memory,
    show_zeros,
)
from ronde.torch._optimizers.preparing import Preparing, check_gradient, refuse_copies
from ronde.torch._optimizers.watching import Watched, is_trained
from ronde.torch.compression import Compression


class AveragingOptimizer(Preparing, Comparing, torch.optim.Optimizer):
    """Mixed into the class of the user's optimizer; see DistributedOptimizer()."""

    def _distribute(
        self,
        named_parameters: Iterable[tuple[str, Parameter]] | None,
        backward_passes_per_step: int,
        flat_gradients: bool,
        options: GradientOptions,
        weight: float | None,
    ) -> None:
        self._parameter_names = parameter_names(self._parameters(), named_parameters)
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
        self._first_step = first_step(process_set)
        self._replicas = replica_check(process_set, self._parameter_names)
        self._call_site = _core.call_site()
        self.backward_passes_per_step = backward_passes_per_step
        set_id(process_set)
        self._communicates = bool(process_set.included()) and (process_set.size() or 1) > 1
        self._gradients: dict[Parameter, Gradient] = {}
        self._buckets = []
        self._watched = Watched([], {})
        self._numbers = itertools.count(1)  # of names for parameters that come later
        self._taken_over_by = ""  # the call that made another optimizer for the parameters
        self._in_backward = False
        self._in_flight = _core.Owners()
        self._findings = Findings()
        self._groups = options.wanted_groups
        self._prepare(self._parameters())
        leave_over_at_end(self, self._buckets)
        if self._communicates:
            self._take_over()
        all_optimizers.add(self)

    __reduce_ex__ = refuse_copies

    def _parameters(self) -> list[Parameter]:
        return [p for group in self.param_groups for p in group["params"]]

    def _prepare(self, parameters: list[Parameter]) -> None:
        """Averages the gradients of these parameters from now on, the same on all ranks.

        Nothing is in flight.
        """
        self._name_new_ones(parameters)
        before = self._gradients
        trained = [p for p in parameters if p in before or is_trained(p)]
        self._gradients = {p: before.get(p) or self._gradient_of(p) for p in trained}
        for gone in before.keys() - self._gradients.keys():
            before[gone].release()
        self._buckets[:] = self._bucketed(list(self._gradients.values()), self._groups)
        self._watched = Watched(self.param_groups, self._gradients)

    def _gradient_of(self, parameter: Parameter) -> Gradient:
        name = self._parameter_names[parameter]
        return Gradient(name, parameter, self.backward_passes_per_step)

    def _bucketed(self, gradients: list[Gradient], groups: Any) -> list[Bucket]:
        """Buckets of the gradients, by the parameters' shapes and dtypes as they are now."""
        changed = [g for g in gradients if g.look() or not g.hooks]
        sparse = [g for g in gradients if g.sparse_dims]
        dense = [g for g in gradients if not g.sparse_dims]
        buckets = [
            part
            for bucket in [*make_buckets(dense, groups), *(Bucket([g]) for g in sparse)]
            for part in by_compression(bucket, self._compression)
        ]
        if self._communicates:
            for gradient in gradients:
                check_gradient(gradient, gradient.parameter)
            if self._flat_gradients:
                buckets = flatten_plain(buckets, bool(groups), self._sparse_as_dense)
            for gradient in changed:
                self._hook(gradient)
        self._prioritize(buckets)
        return buckets

    def _hook(self, gradient: Gradient) -> None:
        """Watches backward make the gradient; hooks before it end."""
        gradient.release()
        show_zeros(gradient.parameter)
        gradient.hooks.append(
            hook(gradient, self, AveragingOptimizer._on_pass, AveragingOptimizer._on_count)
        )
        if isinstance(gradient.bucket, FlatBucket):
            gradient.hooks.append(watch_incoming(gradient, self._sparse_as_dense))

    def _name_new_ones(self, parameters: list[Parameter]) -> None:
        before = self._watched.parameters
        name_new_ones(self._parameter_names, parameters, before, self._numbers)

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
        if several and not self._communicates and not self._taken_over_by:
            self._communicates = True
            self._prepare(self._parameters())
        for bucket in self._buckets:
            bucket.handle = None
            bucket.contexts = []
            bucket.count_anew()
        for gradient in self._gradients.values():
            gradient.passes_left = self.backward_passes_per_step

    def _look_for_changes(self) -> None:
        """Prepares anew if parameters are others, or have changed. Nothing is in flight.

        Shapes and dtypes decide on flat memory and codecs; without them each gradient is sent as
        it is.
        """
        by_data = self._flat_gradients or self._compression is not Compression.none
        watched = self._watched
        if not watched.are(self.param_groups) or (by_data and not watched.are_unchanged()):
            self._prepare(self._parameters())

    def _add_new_ones(self) -> None:
        """Adds parameters that the optimizer has been given since backward began."""
        if self._watched.are(self.param_groups):
            return
        parameters = self._parameters()
        self._name_new_ones(parameters)
        new = [p for p in parameters if is_trained(p) and p not in self._gradients]
        made = {p: self._gradient_of(p) for p in new}
        self._gradients.update(made)
        self._buckets += self._bucketed(list(made.values()), None)

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

    def _on_pass(self, gradient: Gradient) -> None:
        """Called in backward for a gradient that needs more than counting."""
        passes_left = gradient.passes_left - 1
        if passes_left < 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to "
                "step(). Increase backward_passes_per_step to accumulate gradients locally."
            )
        gradient.passes_left = passes_left
        if not self._in_backward:
            self._begin()
        if passes_left or gradient.parameter not in self._gradients:
            return
        gradient.bucket.missing -= 1
        self._on_count(gradient)

    def _on_count(self, gradient: Gradient) -> None:
        """Called in backward for the first and for the last gradient of a bucket."""
        if not self._in_backward:
            before = gradient.bucket
            self._begin()
            if gradient.parameter not in self._gradients:
                return
            if gradient.bucket is not before:
                gradient.bucket.missing -= 1
        if gradient.bucket.missing == 0:
            self._submit(gradient.bucket)

    def _begin(self) -> None:
        """Called in backward for the first gradient of a step."""
        self._in_backward = True
        self._mark_pass("backward")
        self._look_for_changes()

    def _mark_pass(self, name: str) -> None:
        """Marks the backward pass in the timeline, if a step has only one."""
        if self._communicates and self.backward_passes_per_step == 1:
            mark_pass(name)

    def _submit(self, bucket: Bucket) -> None:
        end_leftovers()
        self._under_way = True
        if self._submit_at_once(bucket):
            return
        if isinstance(bucket, FlatBucket):
            tensors = [bucket.ready()]
            views = [collectives.view(tensors[0])]
        else:
            tensors, views = self._prepared(bucket)
        call, compression = self._call_of(bucket), bucket.compression
        if bucket.gradients[0].sparse_dims:
            bucket.handle = self._after_namesakes(
                bucket.name, lambda: start_sparse(tensors[0], call, compression)
            )
            return
        if call.compression or compression is Compression.none:
            bucket.handle = self._after_namesakes(
                bucket.name, lambda: collectives.reduce_in_place(tensors, call, views)
            )
            return
        pairs = [compression.compress(tensor) for tensor in tensors]
        sent = [tensor for tensor, _ in pairs]
        bucket.contexts = [context for _, context in pairs]
        bucket.handle = self._after_namesakes(
            bucket.name, lambda: collectives.allreduce(False, sent, sent, call)
        )

    def _submit_at_once(self, bucket: Bucket) -> bool:
        """Submits the gradients as they are, if the core can read them all; else does nothing."""
        plain = bucket.compression is Compression.none or wire_of(bucket.compression)
        sparse = bucket.gradients[0].sparse_dims or self._sparse_again
        if not plain or sparse or isinstance(bucket, FlatBucket):
            bucket.sent = None
            return False
        sent = bucket.take(self._in_flight)
        if sent is None:
            return False
        call, tensors = self._call_of(bucket), sent.tensors()
        bucket.handle = self._after_namesakes(
            bucket.name, lambda: collectives.reduce_gradients(sent, tensors, call)
        )
        return True

    def _call_of(self, bucket: Bucket) -> Call:
        return Call(
            bucket.name,
            self.process_set,
            self._op,
            self._scale,
            priority=bucket.priority,
            site=self._call_site,
            compression=wire_of(bucket.compression),
            weight=self._weight,
            program=bucket.program(),
            holds_finding=True,
        )

    def _after_namesakes(self, name: str, start: Callable[[], Handle[Any]]) -> Handle[Any]:
        """Starts an operation; if other optimizers have one of its name in flight, after that.

        A notebook that makes its model again may keep the old one.
        """
        try:
            return start()
        except DuplicateNameError:
            others = [o for o in all_optimizers if o is not self]
            found = [b for o in others for b in o._buckets if b.name == name and b.handle]
            if not found:
                raise
            for bucket in found:
                await_quietly(bucket)
            return start()

    def synchronize(self) -> None:
        """Waits until all gradients are averaged over ranks; step() does so by itself.

        Gradients that backward did not make on this rank are sent as they are, or as zeros.
        Raises InvalidArgumentError if a gradient was changed while it was in flight.
        """
        self._refuse_if_taken_over()
        began, self._in_backward = self._in_backward, False
        self._mark_pass("")
        problems: list[Error] = []
        if self._communicates:
            if began:
                self._add_new_ones()
            else:
                self._look_for_changes()
            problems = self._exchange()
        self._under_way = False
        self._in_flight.clear()
        for gradient in self._gradients.values():
            gradient.passes_left = self.backward_passes_per_step
        self._synchronized = False
        if problems:
            raise problems[0]
        if self._first_step.pending:
            self._first_step.check(lambda: facts(self._parameters(), self._parameter_names))
        self._replicas.before_step(self._replica_facts)
        self._synchronized = True
        mark_step()
        self._mark_pass("update")

    def _exchange(self) -> list[Error]:
        """Sends what is not under way, and waits for all. Returns the errors."""
        problems: list[Error] = []
        self._findings.clear()
        for bucket in self._buckets:
            try:
                if bucket.handle is None:
                    bucket.look(self.backward_passes_per_step)
                    self._submit(bucket)
            except Error as problem:
                problems.append(problem)
        awaited = _core.Together([bucket.handle for bucket in self._buckets if bucket.handle])
        for bucket in self._buckets:
            try:
                self._finish(bucket, awaited)
            except Error as problem:
                problems.append(name_tensor(problem, bucket))
        return problems

    def _finish(self, bucket: Bucket, awaited: _core.Together) -> None:
        handle, bucket.handle = bucket.handle, None
        bucket.count_anew()  # fewer than before if a sparse one has left
        if handle is None:
            bucket.sent = None
            return
        outputs = handle.wait(together=awaited)
        self._findings.note(handle, bucket)
        if isinstance(bucket, FlatBucket):
            self._finish_flat(bucket, outputs[0])
            return
        if bucket.gradients[0].sparse_dims:
            bucket.gradients[0].parameter.grad = outputs
            return
        if bucket.sent is not None:
            for place, version, address in bucket.sent.changed():
                gradient = bucket.gradients[place]
                gradient.version, gradient.address = version, address
                if gradient.parameter.grad is not None:
                    self._give(bucket, gradient, outputs[place])
            return
        plain = not bucket.contexts and not self._sparse_again
        for gradient, averaged in zip(bucket.gradients, outputs):
            current = gradient.parameter.grad
            if (
                plain
                and current is averaged
                and current._version == gradient.version
                and current.data_ptr() == gradient.address
            ):
                continue
            if current is not None:
                self._give(bucket, gradient, averaged)

    def _give(self, bucket: Bucket, gradient: Gradient, averaged: torch.Tensor) -> None:
        """Makes an average the parameter's gradient, unless that was changed in flight."""
        current = gradient.parameter.grad
        assert current is not None
        written = current._version != gradient.version and not shares_memory(current)
        if bucket.contexts:
            context = bucket.contexts[bucket.gradients.index(gradient)]
            averaged = bucket.compression.decompress(averaged, context)
        moved = current is averaged and current.data_ptr() != gradient.address
        if written or moved or current.shape != averaged.shape:
            raise InvalidArgumentError(_CHANGED.format(name=gradient.name))
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
        bucket.show()

    def _take_over(self) -> None:
        """Ends the hooks of other optimizers on these parameters."""
        for other in list(all_optimizers):
            if other is not self and not other._gradients.keys().isdisjoint(self._gradients):
                other._let_go(self._call_site)

    def _let_go(self, site: str) -> None:
        """Another optimizer averages the gradients from now on."""
        self._taken_over_by = site
        leave_over(self._buckets)
        for gradient in self._gradients.values():
            gradient.release()
        self._gradients.clear()
        self._buckets.clear()

    def _refuse_if_taken_over(self) -> None:
        if self._taken_over_by:
            raise InvalidArgumentError(
                f"the DistributedOptimizer of {self._call_site} has let go of its parameters: "
                f"{self._taken_over_by} made another one for them; use that, or make one anew"
            )

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
        Gradients that are not finite are told here (RONDE_CHECK_NONFINITE), so not where a
        GradScaler leaves the step out. "fail" raises NonFiniteError; "skip" leaves the step out on
        all ranks, but not with a closure.
        """
        synchronizes = self._should_synchronize
        if synchronizes and closure is None:
            if self._synchronized:
                warnings.warn(_TWICE, stacklevel=2)
            self.synchronize()
        self._synchronized = False
        if self._findings.forbid_step():
            self._mark_pass(_BEFORE_BACKWARD)
            return None
        if closure is None or not synchronizes:
            return self._step_inside(closure)

        def averaged() -> Any:
            loss = closure()
            self.synchronize()
            self._findings.judge()
            return loss

        return self._step_inside(averaged)

    # torch wraps step() of each class in its hooks: the wrapped optimizer's own has them already.
    step.hooked = True  # type: ignore[attr-defined]

    def _step_inside(self, closure: Callable[[], Any] | None) -> Any:
        """The wrapped optimizer's step, and what follows it."""
        try:
            result = super().step(closure)
        except RuntimeError as error:
            for gradient in self._gradients.values():
                given = gradient.parameter.grad
                if given is not None and given.shape != gradient.parameter.shape:
                    raise _late(gradient.name, gradient.parameter, given) from error
            raise
        self._synchronized = False
        self._replicas.after_step(self._replica_facts)
        self._mark_pass(_BEFORE_BACKWARD)
        return result

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
        if self._flat_gradients and self._communicates and not self._in_backward:
            self._look_for_changes()  # views of another shape are in the way of backward
        for bucket in self._buckets:
            if isinstance(bucket, FlatBucket):
                bucket.reset()


def _late(name: str, parameter: Parameter, given: torch.Tensor) -> Error:
    return InvalidArgumentError(
        f"{name} has the shape {list(parameter.shape)}, but its gradient has {list(given.shape)}: "
        "it was given other data after backward(); do that after optimizer.step()"
    )


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
