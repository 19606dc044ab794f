"""Handles of operations in flight, for all frameworks."""

from __future__ import annotations

import operator
from types import GenericAlias
from typing import TYPE_CHECKING, TypeVar

from ronde._core import Handle as Handle

T = TypeVar("T")

Handle.__module__ = "ronde"  # its public name
if not TYPE_CHECKING:
    Handle.__class_getitem__ = classmethod(GenericAlias)


def first(handle: Handle[list[T]]) -> Handle[T]:
    """The same operation, its result the first of the list."""
    return handle.then(operator.itemgetter(0))
