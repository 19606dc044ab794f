"""Buckets of parameters in flat memory, of which each rank updates a part."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from ronde import _core
from ronde._calls.handle import Handle
from ronde._collectives.calls import Call
from ronde._errors import Error, InvalidArgumentError
from ronde._job.runtime import runtime
from ronde.torch._collectives.adapter import collectives
from ronde.torch._optimizers.flat import layout_of, refuse_devices, shape_text
from ronde.torch._optimizers.gradients import Bucket, Gradient, short
from ronde.torch._sharded.differences import Arriving, Differences, Exact
from ronde.torch._sharded.gradient import ShardedGradient

# Parts begin at multiples of it: the vector instructions of a kernel then begin at the same
# elements as in the whole tensor, and round alike.
_STEP = 64
_WAIT_S = 0.05
_SPACE_BYTES = 8 << 20  # fits most buckets


class Members(NamedTuple):
    """The ranks that share a bucket."""

    ranks: list[int]
    place: int  # of this rank in them


class Piece(NamedTuple):
    """This rank's part of a parameter, and the average of its gradient.

    values: views of the parameter's memory, or of exact values that it follows. Those of parts have
    one dimension, in the order of memory, and are the elements from start to stop.
    """

    parameter: torch.Tensor
    start: int
    stop: int
    values: torch.Tensor
    gradient: torch.Tensor
    whole: bool
    exact: Exact | None = None


def memory(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Zeros that ranks of a host share."""
    item = torch.empty(0, dtype=dtype).element_size()
    buffer: Any = _core.allocate(runtime(), max(count, 1) * item)
    return torch.frombuffer(buffer, dtype=dtype)[:count]


class Spaces:
    """Memory in which gradients are sent: each bucket's own, or a few that buckets share.

    A bucket waits a moment for a space that is in use. Then it gets a new one: ranks that use
    different parameters could wait for each other else.
    """

    def __init__(self, few: bool) -> None:
        """few: buckets share them."""
        self.few = few
        self._own: dict[ShardBucket, torch.Tensor] = {}
        self._shared: list[tuple[torch.Tensor, Handle[Any] | Arriving]] = []

    def take(self, bucket: ShardBucket) -> torch.Tensor:
        """Room for the bucket's gradients."""
        count, dtype = bucket.flat.numel(), bucket.flat.dtype
        if not self.few:
            if bucket not in self._own:
                self._own[bucket] = memory(count, dtype)
            return self._own[bucket]
        size = count * bucket.flat.element_size()
        found = self._free(size)
        if found is None:
            found = memory(max(size, _SPACE_BYTES), torch.uint8)
        return found[:size].view(dtype)

    def _free(self, size: int) -> torch.Tensor | None:
        """A space that nothing uses any more. One that is too small gives way."""
        if len(self._shared) > 1 and not any(handle.done() for _, handle in self._shared):
            with suppress(Error):  # whoever has the handle tells
                self._shared[0][1].wait(timeout=_WAIT_S)
        ended = [one for one in self._shared if one[1].done()]
        fitting = [one for one in ended if one[0].numel() >= size]
        for one in [*fitting, *ended][:1]:
            self._shared = [other for other in self._shared if other is not one]
        return fitting[0][0] if fitting else None

    def note(self, space: torch.Tensor, handle: Handle[Any] | Arriving) -> None:
        """The space is in use until the operation ends."""
        if self.few:
            whole = torch.empty(0, dtype=torch.uint8).set_(space.untyped_storage())
            self._shared.append((whole, handle))

    def bytes(self) -> int:
        """The memory in use."""
        tensors = [*self._own.values(), *(space for space, _ in self._shared)]
        return sum(one.numel() * one.element_size() for one in tensors)


class ShardBucket(Bucket):
    """Parameters of one dtype in one buffer, of which each rank updates an equal chunk.

    Gradients are reduced by a reduce-scatter, parameters return by an allgather. With a codec both
    are rounded, and parameters return as differences. Each parameter begins a new block of it.
    """

    whole = False

    def __init__(
        self,
        gradients: list[Gradient],
        members: Members,
        spaces: Spaces,
        optimizer: Any,
        wire: str = "",
    ) -> None:
        """Moves the parameters to the buffer. optimizer: answers for sharded gradients.

        wire: the text of the codec; empty: none.
        """
        super().__init__(gradients)
        self.wire = wire
        self.step = math.lcm(_STEP, (_core.block_of(wire) if wire else 0) or 1)
        for gradient in gradients:
            refuse_devices(gradient, "sharded parameters", "leave out shard=")
        self.members, self.spaces = members, spaces
        dtype, end = gradients[0].dtype, 0
        self.starts = []
        for gradient in gradients:
            self.starts.append(end)
            end += math.ceil(gradient.shape.numel() / self.step) * self.step
        self.flat = memory(self._padded(end), dtype)
        self.low, self.high = self._own_range()
        self.summed = memory(self.high - self.low, dtype)
        self.strides = [layout_of(gradient) for gradient in gradients]
        self.slots = [self._slot(self.flat, place) for place in range(len(gradients))]
        self.attach()
        own = self.flat[self.low : self.high]
        self.differences = Differences(own) if wire else None
        self.sharded = [ShardedGradient(g.parameter, optimizer) for g in gradients]
        self.pieces = [one for place in range(len(gradients)) for one in self._piece(place)]

    def _padded(self, end: int) -> int:
        chunk = math.ceil(end / (self.step * len(self.members.ranks))) * self.step
        return chunk * len(self.members.ranks)

    def _own_range(self) -> tuple[int, int]:
        chunk = self.flat.numel() // len(self.members.ranks)
        return self.members.place * chunk, (self.members.place + 1) * chunk

    def _slot(self, flat: torch.Tensor, place: int) -> torch.Tensor:
        shape, start = self.gradients[place].shape, self.starts[place]
        return flat.as_strided(shape, self.strides[place], start)

    def _piece(self, place: int) -> list[Piece]:
        """This rank's part of a parameter, if it has one."""
        gradient, begin = self.gradients[place], self.starts[place]
        count = gradient.shape.numel()
        low, high = max(self.low, begin), min(self.high, begin + count)
        if low >= high and (count or self.members.place):
            return []
        at, to = low - self.low, max(high - self.low, low - self.low)
        start, stop = low - begin, max(high, low) - begin
        averaged = self.summed[at:to]
        if self.differences is None:
            values = self.flat[low : max(high, low)]
            return [Piece(gradient.parameter, start, stop, values, averaged, self.whole)]
        exact = self.differences.part(at, to)
        return [Piece(gradient.parameter, start, stop, exact.master, averaged, self.whole, exact)]

    def attach(self) -> None:
        """Moves parameters that have other memory to the buffer."""
        for gradient, slot in zip(self.gradients, self.slots):
            parameter: Any = gradient.parameter
            if parameter.data_ptr() == slot.data_ptr() or not slot.numel():
                continue
            if parameter.shape != slot.shape:
                raise InvalidArgumentError(
                    f"{gradient.name} had the shape {list(slot.shape)} in backward(), but has "
                    f"{list(parameter.shape)} now: give it other data after optimizer.step()"
                )
            slot.copy_(parameter.detach())
            parameter.data = slot

    def begin_step(self) -> None:
        """Takes over parameters that were given other values."""
        self.attach()
        if self.differences is not None:
            self.differences.follow()

    def look(self, passes: int) -> None:
        """Nothing: the memory was made for the shapes at the step's beginning."""

    def place_of(self, tensor: int, element: int) -> str:
        """With the element's number in its gradient: the core knows that in the flat memory."""
        place = bisect_right(self.starts, element) - 1
        return f"{self.gradients[place].name}, its element {element - self.starts[place]}"

    def _list(self) -> str:
        """With shapes and layouts: the core sees one tensor only."""
        shapes = list(map(shape_text, self.gradients))
        return f"{len(shapes)} sharded gradients: {short(shapes)}"

    def reduce(self, sparse_as_dense: bool, call: Call) -> Handle[Any]:
        """Starts the reduction. Parameters have sharded gradients then, and full ones are freed."""
        self.attach()
        space = self.spaces.take(self)
        for place, gradient in enumerate(self.gradients):
            self._collect(gradient, self._slot(space, place), sparse_as_dense)
            if self.spaces.few or self.wire:  # others' gradients, or differences, are in the gaps
                space[self.starts[place] + gradient.shape.numel() : self._end(place)].zero_()
        handle = self._start(space, call)
        self.spaces.note(space, handle)
        for gradient, sharded in zip(self.gradients, self.sharded):
            if gradient.parameter.requires_grad:
                gradient.parameter.grad = sharded
        return handle

    def _end(self, place: int) -> int:
        return self.starts[place + 1] if place + 1 < len(self.starts) else self.flat.numel()

    def _start(self, space: torch.Tensor, call: Call) -> Handle[Any]:
        rows = space.view(len(self.members.ranks), -1)
        return collectives.into("reduce_scatter", rows, self.summed, call)

    @staticmethod
    def _collect(gradient: Gradient, slot: torch.Tensor, sparse_as_dense: bool) -> None:
        given = gradient.parameter.grad
        if given is None:
            slot.zero_()
            return
        if isinstance(given, ShardedGradient):
            raise InvalidArgumentError(
                f"the gradient of {gradient.name} was reduced already; zero_grad() comes before "
                "the next backward()"
            )
        if given.is_sparse and not sparse_as_dense:
            raise InvalidArgumentError(
                f"the gradient of {gradient.name} is sparse, which shard= does not support; pass "
                "sparse_as_dense=True"
            )
        slot.copy_(given.to_dense() if given.is_sparse else given)

    def show(self) -> None:
        """Gives the optimizer the averages, except those of frozen parameters."""
        for piece in self.pieces:
            piece.values.grad = piece.gradient if piece.parameter.requires_grad else None

    def gather(self, call: Call) -> Handle[Any] | Arriving:
        """Starts giving all ranks the new values."""
        if self.differences is not None:
            return self._gather_differences(self.differences, call)
        own = self.flat[self.low : self.high].view(1, -1)
        return collectives.into("allgather", own, self.flat, call)

    def _gather_differences(self, differences: Differences, call: Call) -> Arriving:
        space = self.spaces.take(self)
        own = space[self.low : self.high]
        differences.subtract(own)
        handle = collectives.into("allgather", own.view(1, -1), space, call)

        def apply() -> None:
            self.flat.add_(space)
            differences.note_return()

        arriving = Arriving(handle, apply)
        self.spaces.note(space, arriving)
        return arriving


class OwnedBucket(ShardBucket):
    """Parameters of one dtype that one rank updates, in their shapes.

    Gradients are reduced to that rank, which broadcasts the parameters.
    """

    whole = True

    def __init__(
        self,
        gradients: list[Gradient],
        members: Members,
        spaces: Spaces,
        optimizer: Any,
        owner: int,
    ) -> None:
        """owner: its place among the members."""
        self.root, self._owns = members.ranks[owner], owner == members.place
        super().__init__(gradients, members, spaces, optimizer)

    def _padded(self, end: int) -> int:
        return end

    def _own_range(self) -> tuple[int, int]:
        return 0, self.flat.numel() if self._owns else 0

    def _piece(self, place: int) -> list[Piece]:
        if not self._owns:
            return []
        gradient, values = self.gradients[place], self.slots[place]
        averaged = self._slot(self.summed, place)
        return [Piece(gradient.parameter, 0, values.numel(), values.detach(), averaged, True)]

    def _start(self, space: torch.Tensor, call: Call) -> Handle[Any]:
        output = self.summed if self._owns else None
        return collectives.into("reduce", space, output, call._replace(root=self.root))

    def gather(self, call: Call) -> Handle[Any]:
        """Starts giving all ranks the owner's values."""
        return collectives.into("broadcast", self.flat, self.flat, call._replace(root=self.root))


def by_owner(gradients: Sequence[Gradient], owners: Sequence[int]) -> dict[int, list[Gradient]]:
    """The gradients of each owner, in order."""
    parts: dict[int, list[Gradient]] = {}
    for gradient, owner in zip(gradients, owners):
        parts.setdefault(owner, []).append(gradient)
    return parts
