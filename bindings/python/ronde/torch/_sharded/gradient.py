"""The gradient that a parameter has after its reduction: no rank holds all of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ronde._errors import InvalidArgumentError

_aten = torch.ops.aten


class ShardedGradient(torch.Tensor):
    """Stands for a gradient of which each rank holds a part.

    It has shape and dtype, but no memory. Torch's clipping and GradScaler get the norms and flags
    of whole gradients; other reads raise InvalidArgumentError. Norms and flags are collective.
    """

    of: Callable[[], Any]  # the parameter: a strong reference would keep both for ever
    owner: Callable[[], Any]
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, parameter: torch.Tensor, owner: Any) -> ShardedGradient:
        make: Any = torch.Tensor._make_wrapper_subclass
        made: ShardedGradient = make(
            cls, parameter.shape, parameter.stride(), dtype=parameter.dtype, device="cpu"
        )
        made.of, made.owner = weakref.ref(parameter), weakref.ref(owner)
        return made

    @property
    def parameter(self) -> torch.Tensor:
        """Whose gradient it is."""
        parameter: torch.Tensor = self.of()
        return parameter

    def __repr__(self) -> str:  # type: ignore[override]
        return f"ShardedGradient({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        first = next(_gradients(args), None)
        answer = _ANSWERS.get(function)
        owner = first.owner() if first is not None else None
        if answer is None or owner is None:
            raise InvalidArgumentError(
                f"{function} on a gradient that is sharded over ranks: each rank has the average "
                "of a part of it. optimizer.clip_grad_norm_() clips; zero_grad() comes before the "
                "next backward()"
            )
        return answer(owner, function, args, kwargs or {})


def _gradients(args: Any) -> Iterator[ShardedGradient]:
    for one in args:
        if isinstance(one, ShardedGradient):
            yield one
        elif isinstance(one, (list, tuple)):
            yield from _gradients(one)


def _same(_owner: Any, _function: Any, args: Any, _kwargs: Any) -> Any:
    return args[0]


def _norm(owner: Any, _function: Any, args: Any, kwargs: Any) -> Any:
    gradient, order, dims = (*args, *(None, 2.0, None)[len(args) :])[:3]
    if dims or kwargs.get("dim") or kwargs.get("keepdim"):
        raise InvalidArgumentError("a sharded gradient has only the norm of all of its elements")
    dtype = kwargs.get("dtype") or gradient.dtype.to_real()
    return owner.norms(float(order))[gradient.parameter].to(dtype)


def _norms(owner: Any, _function: Any, args: Any, _kwargs: Any) -> Any:
    gradients, order = args[0], args[1] if len(args) > 1 else 2.0
    norms = owner.norms(float(order))
    return [norms[one.parameter].to(one.dtype.to_real()) for one in gradients]


def _each_element(owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
    for part in owner.parts_of([args[0].parameter]):
        function(part, *args[1:], **kwargs)
    return args[0]


def _each_of_several(owner: Any, function: Any, args: Any, kwargs: Any) -> None:
    parts = owner.parts_of([one.parameter for one in args[0]])
    if parts:
        function(parts, *args[1:], **kwargs)


def _unscale(owner: Any, function: Any, args: Any, _kwargs: Any) -> None:
    gradients, found, scale = args
    parts = owner.parts_of([one.parameter for one in gradients])
    if parts:
        function(parts, found, scale)
    owner.agree_on(found)


def _nothing(_owner: Any, _function: Any, args: Any, _kwargs: Any) -> Any:
    return args[0] if isinstance(args[0], torch.Tensor) else None


def _answers() -> dict[Any, Callable[..., Any]]:
    by_name = {
        "detach.default": _same,
        "detach_.default": _same,
        "zero_.default": _nothing,
        "_foreach_zero_.default": _nothing,
        "linalg_vector_norm.default": _norm,
        "_foreach_norm.Scalar": _norms,
        "_amp_foreach_non_finite_check_and_unscale_.default": _unscale,
    }
    for name in ("mul_.Tensor", "mul_.Scalar", "div_.Tensor", "clamp_.default"):
        by_name[name] = _each_element
    for name in ("mul_.Tensor", "mul_.Scalar", "clamp_min_.Scalar", "clamp_max_.Scalar"):
        by_name[f"_foreach_{name}"] = _each_of_several
    found = {}
    for name, answer in by_name.items():
        operation, _, overload = name.partition(".")
        packet = getattr(_aten, operation, None)
        if packet is not None and hasattr(packet, overload):
            found[getattr(packet, overload)] = answer
    return found


_ANSWERS = _answers()
