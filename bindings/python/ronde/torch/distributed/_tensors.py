"""Torch's tensors as contiguous memory of a dtype that the core has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ronde._calls.targets import check_targets
from ronde._errors import InvalidArgumentError
from ronde.torch._collectives.adapter import CODES, _check_place, _layout, check_unmoved

Tensor = torch.Tensor
# Address, shape and dtype code, as the core takes a tensor.
View = tuple[int, tuple[int, ...], int]


def dense(tensor: Tensor) -> Tensor:
    """The tensor itself if its memory can be used in place, else a contiguous copy."""
    _check_place(tensor)
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain if plain.is_contiguous() else plain.contiguous()


def elements(tensor: Tensor) -> Tensor:
    """A dense tensor's memory in a dtype of the core: complex as pairs, unknown ones as bytes.

    For moving elements, not for combining them.
    """
    if tensor.dtype in CODES:
        return tensor
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    return tensor.reshape(-1).view(torch.uint8)


def summable(tensor: Tensor, is_sum: bool) -> Tensor:
    """A dense tensor's memory for a reduction. Complex numbers can be added as pairs only."""
    if tensor.dtype in CODES:
        return tensor
    if tensor.is_complex() and is_sum:
        return torch.view_as_real(tensor)
    allowed = ", ".join(str(dtype)[6:] for dtype in CODES)
    raise InvalidArgumentError(
        f"{tensor.dtype} cannot be combined like this; allowed: {allowed}, and complex types for "
        "sums and averages"
    )


def view(tensor: Tensor) -> View:
    """A dense tensor of a known dtype, as it is."""
    return tensor.data_ptr(), tuple(tensor.shape), CODES[tensor.dtype]


def rows(tensor: Tensor, count: int) -> View:
    """A dense tensor of a known dtype as `count` equal rows, which must divide its elements.

    The rows keep the tensor's shape if possible, so that ranks compare it.
    """
    shape = (1, *tensor.shape) if count == 1 else (count, tensor.numel() // count)
    return tensor.data_ptr(), shape, CODES[tensor.dtype]


def restore(target: Tensor, used: Tensor) -> None:
    """Copies what dense() had copied back into the caller's tensor."""
    if used.data_ptr() != target.data_ptr():
        with torch.no_grad():
            target.copy_(used)


def check_like(what: str, given: Tensor, wanted: Tensor, count: int = 1) -> None:
    """Raises InvalidArgumentError unless `given` is `count` times `wanted`, of the same dtype."""
    if given.dtype != wanted.dtype:
        raise InvalidArgumentError(f"{what} is of {given.dtype}, but {wanted.dtype} is needed")
    if given.numel() != count * wanted.numel():
        raise InvalidArgumentError(
            f"{what} has shape {list(given.shape)}, but {count * wanted.numel()} elements are "
            f"needed: {count} times shape {list(wanted.shape)}"
        )


def joined(parts: Sequence[Tensor]) -> Tensor | None:
    """The parts as one flat tensor if they are adjacent in memory; else None."""
    first = parts[0]
    at = first.data_ptr()
    for part in parts:
        if part.data_ptr() != at or not part.is_contiguous() or part.is_conj() or part.is_neg():
            return None
        at += part.numel() * part.element_size()
    storage = first.untyped_storage()
    if at > storage.data_ptr() + storage.nbytes():
        return None  # adjacent by chance
    count = sum(part.numel() for part in parts)
    return first.detach().as_strided((count,), (1,), first.storage_offset())


def packed(parts: Sequence[Tensor]) -> Tensor:
    """The parts' elements, concatenated; without a copy if they are adjacent already."""
    for part in parts:
        _check_place(part)
    together = joined(parts)
    if together is None:
        together = torch.cat([dense(part).reshape(-1) for part in parts])
    return together


def check_apart(operation: str, parts: Sequence[Tensor]) -> None:
    """Raises InvalidArgumentError if outputs share memory, or one repeats itself."""
    for part in parts:
        _check_place(part)
    check_targets(operation, [_layout(part) for part in parts])


def space_for(operation: str, parts: Sequence[Tensor]) -> Tensor:
    """Memory for all parts' elements: their own if they are adjacent."""
    for part in parts:
        _check_place(part)
    together = joined(parts)
    if together is None:
        check_apart(operation, parts)
        together = torch.empty(sum(part.numel() for part in parts), dtype=parts[0].dtype)
    return together


def unpack(together: Tensor, parts: Sequence[Tensor]) -> None:
    """Copies elements received in space_for()'s memory to the parts."""
    if together.data_ptr() == parts[0].data_ptr():
        return
    with torch.no_grad():
        start = 0
        for part in parts:
            part.copy_(together[start : start + part.numel()].view(part.shape))
            start += part.numel()


def restoring(targets: Sequence[Tensor], used: Sequence[Tensor]) -> Callable[[Any], None]:
    """A function that copies results back to tensors that are not contiguous.

    It raises where a tensor was given other memory meanwhile.
    """
    addresses = [target.data_ptr() for target in targets]

    def finish(_: Any) -> None:
        for target, address, tensor in zip(targets, addresses, used):
            check_unmoved(target, address)
            restore(target, tensor)

    return finish


def unpacking(spaces: Sequence[Tensor], lists: Sequence[Sequence[Tensor]]) -> Callable[[Any], None]:
    """A function that copies what was received in each space to the tensors of its list."""

    def finish(_: Any) -> None:
        for space, parts in zip(spaces, lists):
            unpack(space, parts)

    return finish


def adopt(operation: Any, like: Tensor) -> Tensor:
    """The output that the operation allocated, flat, as a tensor of `like`'s dtype."""
    buffer, shape = operation.output(0)
    if buffer is None or math.prod(shape) == 0:
        return torch.empty(0, dtype=like.dtype)
    return torch.frombuffer(buffer, dtype=like.dtype)
