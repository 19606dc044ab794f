"""Makes one epoch of model.fit() shorter. Keras takes the length from its iterator alone."""

from __future__ import annotations

import functools
import importlib
from typing import Any


class _Limit:
    batches: int | None = None  # of the epoch that begins next; None: as fit() was told


_limit = _Limit()


def limit_next_epoch(batches: int) -> None:
    """The epoch that fit() begins next has this number of batches, which may be 0."""
    _install()
    _limit.batches = batches


def forget_limit() -> None:
    """The next epoch has its full length."""
    _limit.batches = None


@functools.cache
def _install() -> None:
    """Makes Keras' iterators of epochs look at the limit."""
    iterators: Any = importlib.import_module("keras.src.trainers.epoch_iterator")
    owner = iterators.EpochIterator
    begin = owner._enumerate_iterator

    def enumerate_iterator(self: Any) -> Any:
        limit, _limit.batches = _limit.batches, None
        if limit is None:
            return begin(self)
        return _limited(self, begin, limit)

    owner._enumerate_iterator = enumerate_iterator


def _limited(iterator: Any, begin: Any, batches: int) -> Any:
    """The first batches of an epoch. Keras ends the epoch of its data after them."""
    if batches == 0:
        return
    whole, iterator.steps_per_epoch = iterator.steps_per_epoch, batches
    try:
        yield from begin(iterator)
    finally:
        iterator.steps_per_epoch = whole
