"""The interface of tensors that collectives need, implemented for each framework's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Adapter(Protocol[T]):
    """Access to one framework's tensors."""

    def contiguous(self, tensor: T) -> T:
        """The tensor itself where its memory can be used in place, else a contiguous copy."""

    def view(self, tensor: T) -> Any:
        """A contiguous tensor's memory, shape and element type, as the core takes them."""

    def memory(self, tensor: T) -> tuple[int, int]:
        """Address and bytes of a contiguous tensor."""

    def empty_like(self, tensor: T) -> T:
        """A new contiguous tensor of the same shape and element type."""

    def adopt(self, buffer: Any, shape: Sequence[int], like: T) -> T:
        """A tensor over `buffer` (None: no elements), without a copy."""

    def assign(self, target: T, source: T) -> None:
        """Copies all elements of `source` into `target`."""

    def settle(self, tensors: Sequence[T | None]) -> Callable[[Any], None] | None:
        """A function that orders later use of these tensors after an operation's results.

        None for tensors in host memory: there is nothing to do.
        """
