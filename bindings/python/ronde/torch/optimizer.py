"""DistributedOptimizer: averages gradients over ranks while backward still runs."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ronde import _core
from ronde._collectives import Handle
from ronde._errors import InvalidArgumentError
from ronde._job import ProcessSet, global_process_set
from ronde.torch._adapter import collectives
from ronde.torch.compression import Compression
from ronde.torch.mpi_ops import (
    Average,
    synchronize,
)

Parameter = torch.Tensor
_unnamed_optimizers = itertools.count()


class _Bucket:
    """Parameters whose gradients are submitted as one operation; most often a single one."""

    def __init__(self, name: str, parameters: list[Parameter]) -> None:
        self.name = name
        self.parameters = parameters
        self.ready: set[Parameter] = set()
        self.handle: Handle[list[torch.Tensor]] | None = None
        self.contexts: list[Any] = []


class _DistributedOptimizer(torch.optim.Optimizer):
    """Mixed into the class of the user's optimizer; see DistributedOptimizer()."""

    def _distribute(
        self,
        named_parameters: Iterable[tuple[str, Parameter]] | None,
        compression: Any,
        backward_passes_per_step: int,
        op: int,
        gradient_predivide_factor: float,
        buckets: Sequence[Sequence[Parameter]] | int | None,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        self._parameter_names = _names(self.param_groups, named_parameters)
        self._compression = compression
        self._op = op
        self._scale = (
            (1.0 / gradient_predivide_factor, gradient_predivide_factor)
            if op == Average
            else (1.0, 1.0)
        )
        self._sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self._should_synchronize = True
        self._synchronized = False
        self._call_site = _core.call_site()
        self.backward_passes_per_step = backward_passes_per_step
        trained = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        self._passes_left = {p: backward_passes_per_step for p in trained}
        self._bucket_of = _make_buckets(trained, self._parameter_names, buckets)
        self._buckets = list(dict.fromkeys(self._bucket_of.values()))
        self._communicates = bool(process_set.included()) and (process_set.size() or 1) > 1
        if self._communicates:
            _hook_gradients(self, trained)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Averages over ranks only after this many backward passes; gradients add up meanwhile."""
        if passes < 1:
            raise InvalidArgumentError(f"backward_passes_per_step={passes}; allowed: from 1")
        self.backward_passes_per_step = passes
        for parameter in self._passes_left:
            self._passes_left[parameter] = passes

    def _on_gradient(self, parameter: Parameter) -> None:
        """Called in backward, once the gradient of a parameter is complete."""
        if self._passes_left[parameter] <= 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to "
                "step(). Increase backward_passes_per_step to accumulate gradients locally."
            )
        self._passes_left[parameter] -= 1
        if self._passes_left[parameter] > 0:
            return
        bucket = self._bucket_of[parameter]
        bucket.ready.add(parameter)
        if len(bucket.ready) == len(bucket.parameters):
            self._submit(bucket)

    def _submit(self, bucket: _Bucket) -> None:
        pairs = [self._compression.compress(self._dense_gradient(p)) for p in bucket.parameters]
        bucket.contexts = [context for _, context in pairs]
        sent = [tensor for tensor, _ in pairs]
        bucket.handle = collectives.allreduce(
            False, sent, sent, bucket.name, self._op, self._scale, self.process_set, self._call_site
        )

    def _dense_gradient(self, parameter: Parameter) -> torch.Tensor:
        """The gradient to send: zeros where this rank did not use the parameter."""
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        elif parameter.grad.is_sparse:
            if not self._sparse_as_dense:
                raise InvalidArgumentError(
                    f"the gradient of {self._parameter_names[parameter]} is sparse; "
                    "pass sparse_as_dense=True"
                )
            parameter.grad = parameter.grad.to_dense()
        elif not parameter.grad.is_contiguous():
            parameter.grad = parameter.grad.contiguous()
        return parameter.grad

    def synchronize(self) -> None:
        """Waits until all gradients are averaged over ranks; step() does so by itself.

        Gradients that backward did not make on this rank take part as they are, or as zeros.
        """
        if self._communicates:
            for bucket in self._buckets:
                if bucket.handle is None:
                    self._submit(bucket)
            for bucket in self._buckets:
                self._finish(bucket)
        for parameter in self._passes_left:
            self._passes_left[parameter] = self.backward_passes_per_step
        self._synchronized = True

    def _finish(self, bucket: _Bucket) -> None:
        handle, bucket.handle = bucket.handle, None
        bucket.ready.clear()
        assert handle is not None
        outputs = synchronize(handle)
        for parameter, output, context in zip(bucket.parameters, outputs, bucket.contexts):
            averaged = self._compression.decompress(output, context)
            if parameter.grad is not None and averaged is not parameter.grad:
                parameter.grad.copy_(averaged)

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within this context step() does not synchronize: call synchronize() before it."""
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
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). This can cause training slowdown. You may want to "
                    "consider using optimizer.skip_synchronize() context if you use "
                    "optimizer.synchronize() in your code.",
                    stacklevel=2,
                )
            self.synchronize()
        self._synchronized = False
        if closure is None or not synchronizes:
            return super().step(closure)

        def averaged() -> Any:
            loss = closure()
            self.synchronize()
            return loss

        result = super().step(averaged)
        self._synchronized = False
        return result

    # torch wraps step() of each class in its hooks: the wrapped optimizer's own has them already.
    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """As the wrapped optimizer's; an error while gradients are under way."""
        if any(bucket.handle is not None for bucket in self._buckets):
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause "
                "a race condition."
            )
        super().zero_grad(*arguments, **options)


def _names(
    groups: Sequence[dict[str, Any]], named_parameters: Iterable[tuple[str, Parameter]] | None
) -> dict[Parameter, str]:
    """The name of each parameter, given or made up alike on all ranks."""
    parameters = [p for group in groups for p in group["params"]]
    if named_parameters is None:
        number = next(_unnamed_optimizers)
        return {p: f"optimizer{number}.{i}" for i, p in enumerate(parameters)}
    named = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise InvalidArgumentError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    names = [name for name, _ in named]
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise InvalidArgumentError(
            "Parameter names in named_parameters must be unique. "
            f"Found duplicates: {', '.join(doubles)}"
        )
    by_parameter = {p: name for name, p in named}
    unnamed = [id(p) for p in parameters if p not in by_parameter]
    if unnamed:
        raise InvalidArgumentError(
            "named_parameters was specified, but one or more model parameters were not named. "
            f"Python object ids: {', '.join(map(str, unnamed))}"
        )
    return by_parameter


def _make_buckets(
    trained: list[Parameter],
    names: dict[Parameter, str],
    buckets: Sequence[Sequence[Parameter]] | int | None,
) -> dict[Parameter, _Bucket]:
    """The bucket of each parameter: as listed, in so many equal runs, or one of its own."""
    known = set(trained)
    if isinstance(buckets, int):
        width = -(-len(trained) // buckets) if buckets else 1
        lists = [trained[i : i + width] for i in range(0, len(trained), width)]
    else:
        lists = [[p for p in listed if p in known] for listed in (buckets or [])]
    listed_once = list(itertools.chain.from_iterable(lists))
    if len(set(listed_once)) != len(listed_once):
        raise InvalidArgumentError("groups: a parameter appears in more than one group")
    rest = known.difference(listed_once)
    lists = [part for part in lists if part] + [[p] for p in trained if p in rest]
    return {p: bucket for part in lists for bucket in [_Bucket(names[part[0]], part)] for p in part}


def _hook_gradients(optimizer: _DistributedOptimizer, parameters: list[Parameter]) -> None:
    """Has `_on_gradient` called whenever a parameter's gradient has been accumulated."""
    reference = weakref.ref(optimizer)

    def on_gradient(parameter: Parameter) -> None:
        alive = reference()
        if alive is not None:
            alive._on_gradient(parameter)

    for parameter in parameters:
        if hasattr(parameter, "register_post_accumulate_grad_hook"):
            parameter.register_post_accumulate_grad_hook(on_gradient)  # type: ignore[no-untyped-call]
        else:  # torch < 2.1: the node that accumulates the gradient
            view: Any = parameter.expand_as(parameter)
            node = view.grad_fn.next_functions[0][0]
            node.register_hook(lambda *_, p=parameter: on_gradient(p))
            optimizer.__dict__.setdefault("_gradient_nodes", []).append(node)


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Parameter]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Parameter]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Makes an optimizer average its gradients over all ranks before each step.

    Each gradient leaves during backward, as soon as it is complete. The result is of the class of
    `optimizer`, shares its parameters and state, and has besides: synchronize(),
    skip_synchronize(), set_backward_passes_per_step(n).

    named_parameters: (name, parameter) pairs, usually model.named_parameters(); without it, names
    are made up in order, so all ranks must construct their optimizers in the same order.
    compression: Compression.none or Compression.fp16.
    backward_passes_per_step: gradients add up over this many backward passes and are averaged once.
    op: Average, or any other that allreduce() knows.
    gradient_predivide_factor: with Average, divides by it before the sum and by the rest after.
    groups: lists of parameters that travel together, or how many groups to make (num_groups).
    sparse_as_dense: sparse gradients become dense before they are sent.
    Raises InvalidArgumentError (a ValueError) for missing or duplicate names and bad groups.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgumentError(
            "gradient_predivide_factor not supported with op other than Average"
        )
    if backward_passes_per_step < 1:
        raise InvalidArgumentError(
            f"backward_passes_per_step={backward_passes_per_step}; allowed: from 1"
        )
    if num_groups < 0 or (isinstance(groups, int) and groups < 0):
        raise InvalidArgumentError("groups and num_groups must not be negative")
    base = type(optimizer)
    made: Any = type(base.__name__, (_DistributedOptimizer, base), {"__module__": base.__module__})
    wrapped = made.__new__(made)
    # The same parameter groups and state, so that schedulers made before see what happens here.
    wrapped.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    wrapped._distribute(
        named_parameters,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups if groups is not None else num_groups,
        sparse_as_dense,
        process_set,
    )
    return wrapped
