"""DistributedOptimizer's state of each gradient, and the buckets that gradients are sent in."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ronde._argument_checks import check
from ronde._codecs import wire_of
from ronde._compression import for_gradient
from ronde._errors import Error, InvalidArgumentError
from ronde._gradients import in_runs
from ronde._handle import Handle
from ronde._rules import Trained
from ronde.torch._adapter import view_of_like

Parameter = torch.Tensor
_unnamed_optimizers = itertools.count()
_RUN = 256  # small gradients are fused, which ranks that share cores gain most from


class Gradient:
    """The gradient of one trained parameter, between backward and the step."""

    __slots__ = (
        "bucket",
        "dtype",
        "like",
        "name",
        "parameter",
        "passes_left",
        "place",
        "sparse_dims",
        "version",
    )

    def __init__(self, name: str, parameter: Parameter, passes: int) -> None:
        """A gradient that is sent after `passes` backward passes."""
        self.name = name
        self.parameter = parameter
        self.passes_left = passes
        self.bucket: Bucket
        self.place = 0  # in the bucket
        self.sparse_dims = 0  # of a gradient that is sent as sparse
        self.version = 0
        self.dtype = parameter.dtype
        self.like = view_of_like(parameter)  # for dense gradients


class Bucket:
    """Gradients submitted as one operation; usually a single one."""

    __slots__ = (
        "after_first",
        "automatic",
        "compression",
        "contexts",
        "gradients",
        "handle",
        "missing",
        "name",
        "priority",
    )

    def __init__(self, gradients: list[Gradient], automatic: bool = False) -> None:
        """Named after its first gradient; all are missing yet.

        automatic: not the user's choice, so sparse gradients may leave it.
        """
        self.automatic = automatic
        self.name = gradients[0].name
        if automatic:
            self.name += f" and {len(gradients) - 1} more"
        self.gradients = gradients
        self.missing = len(gradients)
        self.after_first = self.missing - 1  # the number that is missing then
        self.handle: Handle[Any] | None = None
        self.contexts: list[Any] = []  # of compressed gradients
        self.compression: Any = None
        self.priority = 0  # higher is sent first
        for place, gradient in enumerate(gradients):
            gradient.bucket, gradient.place = self, place

    def part(self, gradients: list[Gradient]) -> Bucket:
        """A bucket of some of the gradients, with the same options."""
        part = Bucket(gradients, self.automatic and len(gradients) > 1)
        part.compression, part.priority = self.compression, self.priority
        return part


# Buckets in flight of optimizers that no longer exist, as when training failed between backward and
# step. They still write to gradients, and the next optimizer uses the same names.
_leftovers: list[Handle[Any]] = []


def leave_over(owner: Any, buckets: list[Bucket]) -> None:
    """Keeps the buckets in flight once their owner is collected."""

    def keep() -> None:
        _leftovers.extend(bucket.handle for bucket in buckets if bucket.handle is not None)

    weakref.finalize(owner, keep).atexit = False


def end_leftovers() -> None:
    """Waits for the buckets of optimizers that no longer exist, and ignores their errors."""
    while _leftovers:
        with contextlib.suppress(Error):
            _leftovers.pop().wait()


def forget_leftovers() -> None:
    """Drops those of a job that has ended."""
    _leftovers.clear()


def named_pairs(named_parameters: Any) -> list[tuple[str, Parameter]]:
    """The (name, parameter) pairs. Raises InvalidArgumentError for anything else."""
    named = list(named_parameters) if isinstance(named_parameters, Iterable) else [None]
    if any(not isinstance(pair, tuple) for pair in named):
        raise InvalidArgumentError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    for name, _ in named:  # type: ignore[misc]
        check(name=name)
    return named  # type: ignore[return-value]


def parameter_names(
    parameters: Sequence[Parameter], named_parameters: Iterable[tuple[str, Parameter]] | None
) -> dict[Parameter, str]:
    """The name of each parameter: given, or generated, the same on all ranks."""
    if named_parameters is None:
        number = next(_unnamed_optimizers)
        return {p: f"optimizer{number}.{i}" for i, p in enumerate(parameters)}
    named = named_pairs(named_parameters)
    seen: set[str] = set()
    doubles = sorted({name for name, _ in named if name in seen or seen.add(name)})  # type: ignore[func-returns-value]
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


def make_buckets(
    gradients: Sequence[Gradient], groups: Sequence[Sequence[Parameter]] | int | None
) -> list[Bucket]:
    """Buckets as listed, in the given number of runs, or one for each gradient."""
    _check_groups(groups)
    if isinstance(groups, int):
        width = -(-len(gradients) // max(groups, 1)) or 1
        starts = range(0, len(gradients), width) if groups else ()
        lists = [list(gradients[i : i + width]) for i in starts]
    else:
        by_parameter = {gradient.parameter: gradient for gradient in gradients}
        lists = [[by_parameter[p] for p in part if p in by_parameter] for part in groups or []]
    listed = list(itertools.chain.from_iterable(lists))
    if len(set(listed)) != len(listed):
        raise InvalidArgumentError("groups: a parameter appears in more than one group")
    rest = set(gradients).difference(listed)
    buckets = [Bucket(part) for part in lists if part]
    return buckets + _single_buckets([gradient for gradient in gradients if gradient in rest])


def _check_groups(groups: Any) -> None:
    if groups is None or isinstance(groups, int):
        return
    lists = groups if isinstance(groups, (list, tuple)) else [groups]
    for part in lists:
        found = part if isinstance(part, (list, tuple)) else [part]
        if found is not part or not all(isinstance(p, torch.Tensor) for p in part):
            raise InvalidArgumentError(
                "groups: a non-negative whole number or lists of parameters are needed, not "
                f"{groups}"
            )


def _single_buckets(gradients: Sequence[Gradient]) -> list[Bucket]:
    """A bucket for each gradient, or for runs of gradients if there are many."""
    runs = in_runs(gradients, _size, _RUN)
    return [Bucket(run, automatic=len(run) > 1) for run in runs]


def _size(gradient: Gradient) -> tuple[torch.dtype, int]:
    parameter = gradient.parameter
    return parameter.dtype, parameter.numel() * parameter.element_size()


def by_compression(bucket: Bucket, compression: Any) -> list[Bucket]:
    """The bucket's gradients in a bucket for each compression."""
    parts: dict[str | int, list[Gradient]] = {}
    chosen: dict[str | int, Any] = {}
    for gradient in bucket.gradients:
        one = compression_of(gradient.name, gradient.parameter, compression)
        key = wire_of(one) or id(one)
        chosen[key] = one
        parts.setdefault(key, []).append(gradient)
    buckets = [bucket] if len(parts) == 1 else [bucket.part(part) for part in parts.values()]
    for made, key in zip(buckets, parts):
        made.compression = chosen[key]
    return buckets


def compression_of(name: str, parameter: Parameter, compression: Any) -> Any:
    """The compression of a parameter's gradient, by DistributedOptimizer's rules."""
    return for_gradient(trained(name, parameter), compression)


def trained(name: str, parameter: Parameter) -> Trained:
    """The properties of a parameter that rules check."""
    return Trained(
        name,
        parameter.dim(),
        parameter.numel(),
        parameter.dtype,
        parameter.is_floating_point(),
        parameter,
    )


def shares_memory(tensor: torch.Tensor) -> bool:
    """True if a tensor is part of a larger storage, whose other tensors share its version."""
    untyped = hasattr(tensor, "untyped_storage")  # torch >= 2.0
    storage: Any = tensor.untyped_storage() if untyped else tensor.storage()  # type: ignore[no-untyped-call]
    return bool(storage.nbytes() != tensor.numel() * tensor.element_size())


def show_zeros(parameter: Any) -> None:
    """Sets zeros as the parameter's gradient before the first backward pass, as Horovod does.

    The first gradient replaces them; it may be sparse.
    """
    if parameter.grad is not None:
        return
    zeros = parameter.grad = torch.zeros_like(parameter)

    def give_way(_: torch.Tensor) -> None:
        handle.remove()
        if parameter.grad is zeros:
            parameter.grad = None

    handle = parameter.register_hook(give_way)


def hook(
    gradient: Gradient,
    owner: Any,
    on_gradient: Callable[[Any, Gradient], None],
    on_bucket: Callable[[Any, Bucket], None],
    each: bool,
) -> Any:
    """Counts accumulated gradients.

    It calls on_bucket(owner, bucket) for a bucket's first gradient and for its last. It calls
    on_gradient(owner, gradient) if more passes follow in this step or one pass is too many, and
    with `each` for all gradients. Neither keeps the owner alive.
    Returns an object that the hook lives as long as.
    """
    reference = weakref.ref(owner)

    def call(*_: Any) -> None:
        # Thousands of small gradients spend their time here.
        if each or gradient.passes_left != 1:
            owner = reference()
            if owner is not None:
                on_gradient(owner, gradient)
            return
        gradient.passes_left = 0
        bucket = gradient.bucket
        missing = bucket.missing = bucket.missing - 1
        if missing == 0 or missing == bucket.after_first:
            owner = reference()
            if owner is not None:
                on_bucket(owner, bucket)

    parameter: Any = gradient.parameter
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(call)
    # torch < 2.1: the node that accumulates the gradient
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    node.register_hook(call)
    return node
