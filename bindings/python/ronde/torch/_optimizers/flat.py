"""Gradients that live in Ronde's memory: views into one flat buffer for each bucket.

A bucket is then one tensor, sent from and received in the memory that backward and the optimizer
use.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import torch

from ronde import _core
from ronde._codecs import wire_of
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import runtime
from ronde.torch._optimizers.gradients import Bucket, Gradient, short

# Small enough that several are sent during backward, large enough that an operation pays.
_BUCKET_BYTES = 4 << 20
_ALIGNMENT = 64


class FlatBucket(Bucket):
    """A bucket whose gradients are views of `flat`.

    Other code may put another gradient on a parameter, or give a view other memory, as
    model.double() does. So each is looked at before it is sent.
    """

    def __init__(self, gradients: list[Gradient], sparse_as_dense: bool) -> None:
        """Allocates the memory and puts the gradients there: those that exist, else zeros."""
        super().__init__(gradients)
        for gradient in gradients:
            _refuse_devices(gradient)
        self.sparse_as_dense = sparse_as_dense
        self.version = 0
        dtype = gradients[0].dtype
        self.flat, self.starts = _allocate([g.shape.numel() for g in gradients], dtype)
        self.offsets = [start * self.flat.element_size() for start in self.starts]
        self.views = [self._view(gradient) for gradient in gradients]
        for gradient in gradients:
            self.collect(gradient)

    def look(self, passes: int) -> None:
        """Nothing: the memory was made for the shapes at the step's beginning."""

    def place_of(self, tensor: int, element: int) -> str:
        """With the element's number in its gradient: the core knows that in the flat memory."""
        place = bisect_right(self.starts, element) - 1
        return f"{self.gradients[place].name}, its element {element - self.starts[place]}"

    def _list(self) -> str:
        """With shapes and layouts: the core sees one tensor only."""
        return f"{len(self.gradients)} gradients: {short(list(map(shape_text, self.gradients)))}"

    def _view(self, gradient: Gradient) -> torch.Tensor:
        return self.flat.as_strided(
            gradient.shape, layout_of(gradient), self.starts[gradient.place]
        )

    def _in_place(self) -> bool:
        """True if all gradients are the views, in their memory."""
        base = self.flat.data_ptr()
        return all(
            g.parameter.grad is view and view.data_ptr() == base + offset
            for g, view, offset in zip(self.gradients, self.views, self.offsets)
            if view.numel()  # without elements it has no address
        )

    def reset(self) -> None:
        """Zeroes the gradients, and restores views that other code has replaced."""
        if self._in_place():
            return
        self.flat.zero_()
        for gradient in self.gradients:
            self._attach(gradient)

    def _attach(self, gradient: Gradient) -> None:
        """Puts the view on the parameter, a new one if its memory is elsewhere."""
        view, place = self.views[gradient.place], gradient.place
        if view.data_ptr() != self.flat.data_ptr() + self.offsets[place] and view.numel():
            view = self.views[place] = self._view(gradient)
        parameter = gradient.parameter
        if parameter.requires_grad:
            if not parameter.is_cpu:
                _refuse_devices(gradient)
            parameter.grad = view

    def collect(self, gradient: Gradient) -> None:
        """Copies a gradient that other code has set on the parameter into the buffer.

        One of another shape is from before the parameter had its shape, and counts as none.
        """
        view, given = self.views[gradient.place], gradient.parameter.grad
        fresh = self._view(gradient)
        if given is view and (view.data_ptr() == fresh.data_ptr() or not view.numel()):
            return
        self.views[gradient.place] = fresh
        if given is None or given.shape != gradient.shape:
            fresh.zero_()
        else:
            if given.is_sparse and not self.sparse_as_dense:
                raise _sparse_error(gradient)
            fresh.copy_(given.to_dense() if given.is_sparse else given)
        self._attach(gradient)

    def ready(self) -> torch.Tensor:
        """All gradients as one tensor, to be sent."""
        if not self._in_place():
            for gradient in self.gradients:
                self.collect(gradient)
        self.version = self.flat._version
        return self.flat

    def changed(self) -> bool:
        """True if a gradient was written to, or given other memory, since ready()."""
        return self.flat._version != self.version or not self._still_there()

    def _still_there(self) -> bool:
        base = self.flat.data_ptr()
        return all(
            view.data_ptr() == base + offset or not view.numel()
            for view, offset in zip(self.views, self.offsets)
        )

    def show(self) -> None:
        """Puts the views on parameters again that other code has given another gradient."""
        for gradient, view in zip(self.gradients, self.views):
            if gradient.parameter.grad is not view:
                self._attach(gradient)


def layout_of(gradient: Gradient) -> tuple[int, ...]:
    """The strides of its parameter, without gaps: fused optimizers need the same of both."""
    return torch.empty_like(gradient.parameter, device="meta").stride()


def shape_text(gradient: Gradient) -> str:
    """Its name and shape, and the layout if that is another than C's."""
    text = f"{gradient.name}{list(gradient.shape)}"
    strides = layout_of(gradient)
    if strides == torch.empty(gradient.shape, device="meta").stride():
        return text
    return f"{text} with strides {list(strides)}"


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


def refuse_devices(gradient: Gradient, what: str, remedy: str) -> None:
    """Raises for a parameter on a device: `what` lives in the host's memory."""
    device = gradient.parameter.device
    if device.type != "cpu":
        raise InvalidArgumentError(
            f"{gradient.name} is on {device}, but {what} live in host memory; {remedy}"
        )


def _refuse_devices(gradient: Gradient) -> None:
    refuse_devices(gradient, "flat_gradients", "pass flat_gradients=False")


def _sparse_error(gradient: Gradient) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the gradient of {gradient.name} is sparse, which flat_gradients does not support; pass "
        "sparse_as_dense=True, or flat_gradients=False"
    )


def watch_incoming(gradient: Gradient, sparse_as_dense: bool) -> Any:
    """Looks at each gradient before it is added to the view on the parameter.

    A view that no longer fits the parameter gives way. A sparse gradient raises: the view would
    make it dense. Returns an object whose remove() ends it.
    """

    def look(incoming: torch.Tensor) -> None:
        parameter = gradient.parameter
        view = parameter.grad
        if view is not None and (
            view.shape != parameter.shape or view.dtype is not parameter.dtype
        ):
            parameter.grad = None
        if incoming.is_sparse and not sparse_as_dense:
            raise _sparse_error(gradient)

    parameter: Any = gradient.parameter
    return parameter.register_hook(look)


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
    return [FlatBucket(run, sparse_as_dense) for run in flat_runs(buckets, grouped)]


def flat_runs(buckets: Sequence[Bucket], grouped: bool) -> list[list[Gradient]]:
    """The gradients of each flat bucket."""
    lists = [bucket.gradients for bucket in buckets]
    if not grouped:  # backward begins at the end
        lists = [[g for gradients in reversed(lists) for g in gradients]]
    parts = [part for gradients in lists for part in _of_one_dtype(gradients)]
    return [run for part in parts for run in _runs(part, grouped)]


def _of_one_dtype(gradients: Sequence[Gradient]) -> list[list[Gradient]]:
    parts: dict[torch.dtype, list[Gradient]] = {}
    for gradient in gradients:
        parts.setdefault(gradient.dtype, []).append(gradient)
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
