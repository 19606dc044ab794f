"""Gradients that live in Ronde's memory: views into one flat buffer for each bucket.

A bucket is then one tensor, sent from and received in the memory that backward and the optimizer
use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ronde import _core
from ronde._codecs import wire_of
from ronde._errors import InvalidArgumentError
from ronde._runtime import runtime
from ronde.torch._gradients import Bucket, Gradient

# Small enough that several are sent during backward, large enough that an operation pays.
_BUCKET_BYTES = 4 << 20
_ALIGNMENT = 64


class FlatBucket(Bucket):
    """A bucket whose gradients are views of `flat`."""

    __slots__ = ("flat", "sparse_as_dense", "version", "views")

    def __init__(self, gradients: list[Gradient], sparse_as_dense: bool) -> None:
        """Allocates the memory and puts the gradients there, as zeros."""
        super().__init__(gradients)
        for gradient in gradients:
            _refuse_devices(gradient)
        self.sparse_as_dense = sparse_as_dense
        self.version = 0
        dtype = gradients[0].parameter.dtype
        self.flat, starts = _allocate([g.parameter.numel() for g in gradients], dtype)
        self.views = [
            self.flat[at : at + g.parameter.numel()].view(g.parameter.shape)
            for g, at in zip(gradients, starts)
        ]
        self._attach()
        if not sparse_as_dense:
            for gradient in gradients:
                _refuse_sparse(gradient)

    def _attach(self) -> None:
        for gradient, view in zip(self.gradients, self.views):
            if gradient.parameter.requires_grad:
                gradient.parameter.grad = view

    def reset(self) -> None:
        """Zeroes the gradients, and restores views that other code has replaced."""
        if all(g.parameter.grad is view for g, view in zip(self.gradients, self.views)):
            return
        self.flat.zero_()
        self._attach()

    def collect(self, gradient: Gradient) -> None:
        """Copies a gradient that other code has set on the parameter into the buffer."""
        view = self.views[gradient.place]
        parameter = gradient.parameter
        given = parameter.grad
        if given is view:
            return
        if given is None:
            view.zero_()
        else:
            if given.is_sparse and not self.sparse_as_dense:
                raise _sparse_error(gradient)
            view.copy_(given.to_dense() if given.is_sparse else given)
        if parameter.requires_grad:
            parameter.grad = view

    def ready(self) -> torch.Tensor:
        """All gradients as one tensor, to be sent."""
        for gradient in self.gradients:
            self.collect(gradient)
        self.version = self.flat._version
        return self.flat

    def changed(self) -> bool:
        """True if a gradient was written to since ready()."""
        return self.flat._version != self.version


def _allocate(counts: Sequence[int], dtype: torch.dtype) -> tuple[torch.Tensor, list[int]]:
    """A zeroed tensor with room for these numbers of elements, and where each begins."""
    item = torch.empty(0, dtype=dtype).element_size()
    step = math.lcm(_ALIGNMENT, item) // item
    starts, end = [], 0
    for count in counts:
        starts.append(end)
        end += -(-count // step) * step
    buffer: Any = _core.allocate(runtime(), max(end, 1) * item)
    return torch.frombuffer(buffer, dtype=dtype)[:end], starts


def _refuse_devices(gradient: Gradient) -> None:
    """Raises for parameters on devices: flat memory is the host's."""
    device = gradient.parameter.device
    if device.type != "cpu":
        raise InvalidArgumentError(
            f"{gradient.name} is on {device}, but flat_gradients live in host memory; pass "
            "flat_gradients=False"
        )


def _sparse_error(gradient: Gradient) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the gradient of {gradient.name} is sparse, which flat_gradients does not support; pass "
        "sparse_as_dense=True, or flat_gradients=False"
    )


def _refuse_sparse(gradient: Gradient) -> None:
    """Raises in the first backward pass for a sparse gradient, which a view would make dense.

    A gradient that is dense then stays dense.
    """

    def look(incoming: torch.Tensor) -> None:
        handle.remove()
        if incoming.is_sparse:
            raise _sparse_error(gradient)

    parameter: Any = gradient.parameter
    handle = parameter.register_hook(look)


def flatten_plain(buckets: Sequence[Bucket], grouped: bool, sparse_as_dense: bool) -> list[Bucket]:
    """Flattens buckets without a codec of Ronde. The others keep their tensors."""
    made = [bucket for bucket in buckets if wire_of(bucket.compression)]
    plain: dict[int, list[Bucket]] = {}
    for bucket in buckets:
        if not wire_of(bucket.compression):
            plain.setdefault(id(bucket.compression), []).append(bucket)
    for alike in plain.values():
        for bucket in flatten(alike, grouped, sparse_as_dense):
            bucket.compression = alike[0].compression
            made.append(bucket)
    return made


def flatten(buckets: Sequence[Bucket], grouped: bool, sparse_as_dense: bool) -> list[Bucket]:
    """Buckets of one dtype each in flat memory: as listed, or (not grouped) by size."""
    lists = [bucket.gradients for bucket in buckets]
    if not grouped:  # backward begins at the end
        lists = [[g for gradients in reversed(lists) for g in gradients]]
    made: list[Bucket] = []
    for gradients in lists:
        for part in _of_one_dtype(gradients):
            made += [FlatBucket(run, sparse_as_dense) for run in _runs(part, grouped)]
    return made


def _of_one_dtype(gradients: Sequence[Gradient]) -> list[list[Gradient]]:
    parts: dict[torch.dtype, list[Gradient]] = {}
    for gradient in gradients:
        parts.setdefault(gradient.parameter.dtype, []).append(gradient)
    return list(parts.values())


def _runs(gradients: list[Gradient], whole: bool) -> list[list[Gradient]]:
    """The gradients, cut into runs of a bucket's size."""
    if whole:
        return [gradients]
    runs: list[list[Gradient]] = [[]]
    size = 0
    for gradient in gradients:
        parameter = gradient.parameter
        if size >= _BUCKET_BYTES:
            runs.append([])
            size = 0
        runs[-1].append(gradient)
        size += parameter.numel() * parameter.element_size()
    return [run for run in runs if run]
