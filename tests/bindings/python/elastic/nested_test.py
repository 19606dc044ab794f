"""Copies of nested values, and values that are set in place."""

from collections import Counter, OrderedDict, defaultdict, deque
from difflib import Match

import numpy as np
import pytest
from ronde._snapshots.nested import copied, set_in_place


def values():
    """Containers of every type, with an array and a list in each."""
    return [
        {"a": np.arange(3.0), "b": [1]},
        OrderedDict(b=[1], a=np.ones(2)),
        defaultdict(list, {"a": [np.ones(1)]}),
        Counter("abca"),
        [np.zeros(2), [1, [2]]],
        (np.zeros(2), [1]),
        Match([1], np.ones(2), "c"),
        deque([np.ones(1), [3]], maxlen=3),
        {1, 2},
        bytearray(b"ab"),
        frozenset({3}),
        None,
        1 + 2j,
    ]


@pytest.mark.parametrize("place", range(len(values())))
def test_copies_have_the_types_and_values_but_share_nothing(place):
    value = values()[place]
    found = copied(value)
    assert type(found) is type(value)
    assert repr(found) == repr(value)
    if isinstance(value, (list, tuple, deque)):
        assert all(a is not b for a, b in zip(value, found) if isinstance(a, (np.ndarray, list)))
    assert getattr(found, "maxlen", 3) == 3
    assert getattr(found, "default_factory", list) is list


def change(value):
    """Changes all that a container holds."""
    if isinstance(value, np.ndarray):
        value += 5
    elif isinstance(value, dict):
        for item in value.values():
            change(item)
        value["extra"] = 1
    elif isinstance(value, (list, deque)):
        for item in value:
            change(item)
        value.append(9)
    elif isinstance(value, tuple):
        for item in value:
            change(item)
    elif isinstance(value, set):
        value.add(7)
    elif isinstance(value, bytearray):
        value += b"x"


@pytest.mark.parametrize("place", range(len(values())))
def test_values_go_into_the_objects_that_are_there(place):
    old, wanted = values()[place], values()[place]
    inner = list(old.values()) if isinstance(old, dict) else list(old or []) if place < 8 else []
    change(old)
    found = set_in_place(old, wanted)
    assert found is old or not isinstance(old, (dict, list, deque, set, bytearray, tuple))
    assert repr(found) == repr(wanted)
    now = list(found.values()) if isinstance(found, dict) else list(found or []) if inner else []
    for before, after in zip(inner, now):
        assert before is after or not isinstance(before, (np.ndarray, list))


def test_values_of_another_form_are_copies():
    for old, new in [
        (np.zeros(2), np.zeros(3)),
        (np.zeros(2), np.zeros(2, np.float32)),
        ([1], (1,)),
        (deque([1], 2), deque([1], 3)),
        (np.broadcast_to(np.zeros(1), 3), np.ones(3)),
        (None, [np.ones(1)]),
    ]:
        found = set_in_place(old, new)
        assert found is not old
        assert found is not new
        assert type(found) is type(new)
        assert repr(found) == repr(new)
        assert getattr(found, "dtype", None) == getattr(new, "dtype", None)


def test_what_is_shared_afterwards_is_what_is_shared_in_the_new_value():
    one = np.zeros(2)
    apart = {"a": np.ones(2), "b": np.full(2, 2.0)}
    found = set_in_place({"a": one, "b": one}, apart)
    assert (found["a"].tolist(), found["b"].tolist()) == ([1, 1], [2, 2])
    assert found["a"] is one
    assert found["b"] is not apart["b"]
    shared = [4]
    found = set_in_place({"a": [1], "b": [2]}, {"a": shared, "b": shared})
    assert found["a"] is found["b"] is not shared
