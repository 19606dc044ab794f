"""Nested containers and arrays: copies of them, and values that are set in place.

Others hold references to a state's dictionaries, lists and arrays: schedulers, other objects of the
user. So a new value goes into the object that is there, if it can hold it.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

from ronde._snapshots.array_kinds import ARRAY_KINDS, clone, kind_of

Keep = Callable[[Any], Any]  # gives a copy its own array for one of the live value
Visit = Callable[[Any, Any], Any]  # from a place in a container and its item to the new item

_NOTHING: Any = object()  # stands for an object that is not there


def copied(value: Any, keep: Keep = clone) -> Any:
    """A copy of containers and arrays with all they contain; other objects themselves.

    keep: copies an array of exactly a known kind.
    """
    if type(value) in ARRAY_KINDS:
        return keep(value)
    if kind_of(value) is not None:
        return clone(value)
    return _rebuilt(value, lambda _, item: copied(item, keep))


def set_in_place(old: Any, new: Any) -> Any:
    """As Setting.set(), of one value."""
    return Setting().set(old, new)


def _rebuilt(value: Any, visit: Visit) -> Any:
    """A container of the same type with new items; any other object itself."""
    if isinstance(value, dict):
        made = copy.copy(value)
        for key, item in value.items():
            made[key] = visit(key, item)
        return made
    if isinstance(value, (list, tuple, deque)):
        items = [visit(place, item) for place, item in enumerate(value)]
        return _sequence_like(value, items)
    if isinstance(value, (set, frozenset, bytearray)):
        return copy.copy(value)
    return value


def _sequence_like(value: Any, items: list[Any]) -> Any:
    if isinstance(value, tuple):
        make = getattr(type(value), "_make", type(value))
        return make(items)
    made = copy.copy(value)
    made.clear()
    made.extend(items)
    return made


class Setting:
    """Sets values in place. An object that is in several places stays one object."""

    def __init__(self) -> None:
        """Has set no value yet."""
        # The objects themselves are kept, so that no other object gets their id.
        self._placed: dict[int, tuple[Any, Any]] = {}  # by the id of the new one: what has it now
        self._taken: dict[int, Any] = {}

    def set(self, old: Any, new: Any, keep: Keep = clone) -> Any:
        """Gives `old` the value of `new`, with all they contain; returns what has the value then.

        It is `old` if both are containers of one type, or arrays of one form; else a copy of `new`,
        which stays as it is. keep: copies an array that has no place yet.
        """
        if old is new:
            return old
        if id(new) in self._placed:
            return self._placed[id(new)][1]
        if id(old) in self._taken:
            old = _NOTHING  # it has another value already
        kind = kind_of(new)
        found = self._container(old, new, keep) if kind is None else _array(kind, old, new, keep)
        if kind is not None or isinstance(new, (dict, list, deque, set, bytearray)):
            self._placed[id(new)] = new, found
            self._taken[id(found)] = found
        return found

    def _container(self, old: Any, new: Any, keep: Keep) -> Any:
        made = _rebuilt(new, lambda place, item: self.set(_item(old, new, place), item, keep))
        if type(old) is not type(new):
            return made
        if isinstance(new, tuple):
            return old if _same_items(old, made) else made
        return _refilled(old, made)


def _array(kind: Any, old: Any, new: Any, keep: Keep) -> Any:
    if not _same_form(kind, old, new):
        return keep(new)
    kind.copy(old, new)
    return old


def _same_form(kind: Any, old: Any, new: Any) -> bool:
    found: Any = kind_of(old)
    if found is not kind or not (kind.is_plain(old) and kind.is_plain(new)):
        return False
    return bool(kind.form(old) == kind.form(new) and kind.is_writeable(old))


def _item(old: Any, new: Any, place: Any) -> Any:
    """The item of the old container at the same place."""
    if type(old) is not type(new):
        return _NOTHING
    if isinstance(old, dict):
        return old.get(place, _NOTHING)
    return old[place] if place < len(old) else _NOTHING


def _same_items(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right))


def _refilled(old: Any, made: Any) -> Any:
    """The old container with the items of another one; that one if it cannot have them."""
    if isinstance(old, (dict, set)):
        old.clear()
        old.update(made)
    elif isinstance(old, bytearray):
        old[:] = made
    elif isinstance(old, list) or (isinstance(old, deque) and old.maxlen == made.maxlen):
        old.clear()
        old.extend(made)
    else:
        return made
    return old
