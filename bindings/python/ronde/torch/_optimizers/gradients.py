"""DistributedOptimizer's state of each gradient, and the buckets that gradients are sent in."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ronde import _core
from ronde._calls.argument_checks import check
from ronde._calls.handle import Handle
from ronde._codecs import wire_of
from ronde._compression.choice import for_gradient
from ronde._compression.rules import Trained
from ronde._errors import Error, InvalidArgumentError
from ronde._training.gradients import in_runs
from ronde.torch._collectives.adapter import CODES, storage_of

Parameter = torch.Tensor
_unnamed_optimizers = itertools.count()
# In the names of parameters that an optimizer is given later.
_REPLACES, _ADDED = " (replacement ", "added."
_RUN = 256  # small gradients are fused, which ranks that share cores gain most from


class Gradient:
    """The gradient of one trained parameter, between backward and the step."""

    def __init__(self, name: str, parameter: Parameter, passes: int) -> None:
        """A gradient that is sent after `passes` backward passes."""
        self.name = name
        self.parameter = parameter
        self.passes_left = passes
        self.bucket: Bucket
        self.place = 0  # in the bucket
        self.sparse_dims = 0  # of a gradient that is sent as sparse
        self.version = self.address = 0  # of the tensor that is sent
        self.hooks: list[Any] = []  # live as long as this
        self.look()

    def look(self) -> bool:
        """Notes the parameter's shape and dtype. Returns true if they are others than before."""
        shape, dtype = self.parameter.shape, self.parameter.dtype
        before = getattr(self, "shape", None), getattr(self, "dtype", None)
        self.shape, self.dtype, self.code = shape, dtype, CODES.get(dtype)
        return before != (shape, dtype)

    def release(self) -> None:
        """Ends its hooks."""
        for one in self.hooks:
            if hasattr(one, "remove"):  # not the nodes of torch < 2.1
                one.remove()
        self.hooks.clear()


class Bucket:
    """Gradients submitted as one operation; usually a single one."""

    def __init__(self, gradients: list[Gradient], automatic: bool = False) -> None:
        """Named after its first gradient; all are missing yet.

        automatic: not the user's choice, so sparse gradients may leave it.
        """
        self.automatic = automatic
        self.name = gradients[0].name
        if automatic:
            self.name += f" and {len(gradients) - 1} more"
        self.gradients = gradients
        self.count_anew()
        self.handle: Handle[Any] | None = None
        self.sent: _core.SentGradients | None = None  # reads all of them at once
        self.contexts: list[Any] = []  # of compressed gradients
        self.compression: Any = None
        self.priority = 0  # higher is sent first
        self.listed = 0, ""  # a number of gradients, and the text that lists them
        for place, gradient in enumerate(gradients):
            gradient.bucket, gradient.place = self, place

    def take(self, in_flight: _core.Owners) -> _core.SentGradients | None:
        """All gradients as they are now, read at once; None if one of them needs a closer look."""
        if self.sent is None:
            codes = [-1 if one.code is None else one.code for one in self.gradients]
            self.sent = _core.SentGradients([one.parameter for one in self.gradients], codes)
        if self.sent.take(in_flight, self):
            return self.sent
        self.sent = None  # the closer look may find other dtypes
        return None

    def count_anew(self) -> None:
        """All gradients are missing again."""
        self.missing = len(self.gradients)
        self.after_first = self.missing - 1  # the number that is missing then

    def look(self, passes: int) -> None:
        """Notes the shapes and dtypes of parameters of which backward made no gradient.

        An old gradient of another shape goes.
        """
        for gradient in self.gradients:
            if gradient.passes_left == passes:
                gradient.look()
                old = gradient.parameter.grad
                if old is not None and old.shape != gradient.shape:
                    gradient.parameter.grad = None

    def program(self) -> str:
        """A text on which ranks must agree: which gradients these are, and which are frozen.

        A rank that froze a parameter would not update it. The core knows shapes by itself.
        """
        if self.listed[0] != len(self.gradients):  # a sparse one may leave
            self.listed = len(self.gradients), self._list()
        if not self.missing:  # backward has made all
            return self.listed[1]
        frozen = [g.name for g in self.gradients if not g.parameter.requires_grad]
        return f"{self.listed[1]}; frozen here: {short(frozen)}" if frozen else self.listed[1]

    def _list(self) -> str:
        names = [gradient.name for gradient in self.gradients]
        return f"{len(names)} gradients: {short(names)}"

    def place_of(self, tensor: int, element: int) -> str:
        """The gradient of an element of one of its tensors, for messages."""
        return self.gradients[tensor].name

    def part(self, gradients: list[Gradient]) -> Bucket:
        """A bucket of some of the gradients, with the same options."""
        part = Bucket(gradients, self.automatic and len(gradients) > 1)
        part.compression, part.priority = self.compression, self.priority
        return part


# Buckets in flight of optimizers that no longer exist, as when training failed between backward and
# step. They still write to gradients, and the next optimizer uses the same names.
_leftovers: list[Bucket] = []


def short(texts: Sequence[str]) -> str:
    """The texts, in at most 450 bytes; a digest stands for the rest.

    Names that were not given come first: ranks differ in them, if at all.
    """
    whole = ", ".join(sorted(texts, key=_is_given))
    data = whole.encode()
    if len(data) <= 450:
        return whole
    begin = data[:400].decode(errors="ignore")
    return f"{begin}... ({len(texts)}, digest {hashlib.sha256(data).hexdigest()[:16]})"


def name_tensor(error: Error, bucket: Bucket) -> Error:
    """The same error, with the name of the tensor that it has the number of."""
    found = re.search(r" of tensor (\d+)", str(error))
    if found and int(found[1]) < len(bucket.gradients):
        error.args = (f"{error}; tensor {found[1]} is {bucket.gradients[int(found[1])].name}",)
    return error


def leave_over(buckets: Iterable[Bucket]) -> None:
    """Keeps those in flight, whose owner does not wait for them any more."""
    _leftovers.extend(bucket for bucket in buckets if bucket.handle is not None)


def leave_over_at_end(owner: Any, buckets: list[Bucket]) -> None:
    """Keeps the buckets in flight once their owner is collected, and ends the hooks.

    Python's collector does not see that a parameter holds its hooks, which hold the parameter.
    """

    def end() -> None:
        leave_over(buckets)
        for bucket in buckets:
            for gradient in bucket.gradients:
                gradient.release()

    weakref.finalize(owner, end).atexit = False


def end_leftovers() -> None:
    """Waits for the buckets that nobody else waits for, and ignores their errors."""
    while _leftovers:
        await_quietly(_leftovers.pop())


def await_quietly(bucket: Bucket) -> None:
    """Waits for a bucket in flight, and ignores its error."""
    if bucket.handle is not None:
        with contextlib.suppress(Error):
            bucket.handle.wait()


def forget_leftovers() -> None:
    """Drops those of a job that has ended."""
    _leftovers.clear()


def named_pairs(named_parameters: Any) -> list[tuple[str, Parameter]]:
    """The (name, parameter) pairs. Raises InvalidArgumentError for anything else."""
    named = list(named_parameters) if isinstance(named_parameters, Iterable) else [None]
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in named):
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
    _refuse_doubles(named)
    by_parameter = {p: name for name, p in named}
    _refuse_unnamed(parameters, by_parameter)
    return by_parameter


def _refuse_doubles(named: Sequence[tuple[str, Parameter]]) -> None:
    """Raises InvalidArgumentError for a name that several parameters have."""
    by_name: dict[str, list[Parameter]] = {}
    for name, parameter in named:
        by_name.setdefault(name, []).append(parameter)
    doubles = [
        f"{name} ({', '.join(map(described, alike))})"
        for name, alike in sorted(by_name.items())
        if len(alike) > 1
    ]
    if doubles:
        raise InvalidArgumentError(
            "Parameter names in named_parameters must be unique. "
            f"Found duplicates: {_some(doubles)}; for several models, give each name a prefix: "
            '("encoder." + name, parameter)'
        )


def _refuse_unnamed(parameters: Sequence[Parameter], names: dict[Parameter, str]) -> None:
    """Raises InvalidArgumentError for parameters without a name."""
    unnamed = [
        f"number {place}, {described(parameter)}{_after(place, parameters, names)}"
        for place, parameter in enumerate(parameters)
        if parameter not in names
    ]
    if unnamed:
        raise InvalidArgumentError(
            "named_parameters was specified, but one or more model parameters were not named. "
            f"{len(unnamed)} of the optimizer's {len(parameters)} are missing: {_some(unnamed)}; "
            "pass named_parameters() of every module whose parameters the optimizer has"
        )


def _after(place: int, parameters: Sequence[Parameter], names: dict[Parameter, str]) -> str:
    """The named parameter before this place, which shows the module."""
    for parameter in reversed(parameters[:place]):
        if parameter in names:
            return f" after {names[parameter]}"
    return ""


def _some(texts: Sequence[str], most: int = 5) -> str:
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more


def described(parameter: Parameter) -> str:
    """The dtype and shape of a parameter, for errors."""
    if is_lazy(parameter):
        return "not initialized yet"
    return f"{str(parameter.dtype)[6:]}{list(parameter.shape)}"


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


def name_new_ones(
    names: dict[Parameter, str],
    parameters: Sequence[Parameter],
    before: Sequence[Parameter],
    numbers: Iterator[int],
) -> None:
    """Names parameters that an optimizer was given since it had those `before`, in `names`.

    numbers: unused ones. All ranks must give their optimizers the same parameters.
    """
    gone = set(before).difference(parameters)
    for place, parameter in enumerate(parameters):
        if parameter in names:
            continue
        old = before[place] if place < len(before) else None
        if old is not None and old in gone and old in names:
            names[parameter] = f"{_original(names.pop(old))}{_REPLACES}{next(numbers)})"
        else:
            names[parameter] = f"{_ADDED}{next(numbers)}"


def _is_given(text: str) -> bool:
    return _REPLACES not in text and not text.startswith(_ADDED)


def _original(name: str) -> str:
    """The name of the parameter whose place another one has taken."""
    return name.partition(_REPLACES)[0]


def compression_of(name: str, parameter: Parameter, compression: Any) -> Any:
    """The compression of a parameter's gradient, by DistributedOptimizer's rules."""
    return for_gradient(trained(_original(name), parameter), compression)


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
    whole = storage_of(tensor).nbytes()
    return bool(whole != tensor.numel() * tensor.element_size())


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
    on_pass: Callable[[Any, Gradient], None],
    on_count: Callable[[Any, Gradient], None],
) -> Any:
    """Counts accumulated gradients.

    It calls on_count(owner, gradient) after a bucket's first gradient and after its last. It calls
    on_pass(owner, gradient) instead if more passes follow in this step or one pass is too many.
    Neither keeps the owner alive. Returns an object that the hook lives as long as.
    """
    reference = weakref.ref(owner)

    def call(*_: Any) -> None:
        # Thousands of small gradients spend their time here.
        if gradient.passes_left != 1:
            owner = reference()
            if owner is not None:
                on_pass(owner, gradient)
            return
        gradient.passes_left = 0
        bucket = gradient.bucket
        missing = bucket.missing = bucket.missing - 1
        if missing == 0 or missing == bucket.after_first:
            owner = reference()
            if owner is not None:
                on_count(owner, gradient)

    parameter: Any = gradient.parameter
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(call)
    # torch < 2.1: the node that accumulates the gradient
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    node.register_hook(call)
    return node
