"""The means over ranks of an epoch's metrics: numbers, vectors, and dictionaries of them."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from ronde._collectives import on_arrays
from ronde._collectives.objects import allgather_object
from ronde._errors import MismatchError
from ronde._job.process_sets import ProcessSet


def average(logs: dict[str, Any], process_set: ProcessSet) -> None:
    """Replaces each number and each array of numbers by its mean over ranks; others stay.

    An array becomes a NumPy array. Collective. Raises MismatchError on all ranks, naming the first
    metric that is not alike on all ranks.
    """
    places = list(_places(logs, ""))
    arrays = [_array(where[key]) for _, where, key in places]
    forms = {name: a.shape for (name, *_), a in zip(places, arrays) if a is not None}
    _check_alike(forms, process_set)
    if not forms:
        return
    flat = np.concatenate([a.ravel() for a in arrays if a is not None])
    name = f"metrics.{'.'.join(forms)}"[:1000]
    means = on_arrays.allreduce(flat, name, process_set=process_set)
    for (_, where, key), array in zip(places, arrays):
        if array is None:
            continue
        mean, means = means[: array.size], means[array.size :]
        where[key] = mean.reshape(array.shape) if array.shape else float(mean[0])


def _places(logs: dict[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(name, dictionary, key) of each value, in the same order on all ranks."""
    for key in sorted(logs, key=str):
        name = f"{prefix}{key}"
        if isinstance(logs[key], dict):
            yield from _places(logs[key], f"{name}.")
        else:
            yield name, logs, key


def _array(value: Any) -> Any:
    """The metric as an array of float64; None if it is no number and no array of numbers."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    if isinstance(value, numbers.Real):
        return np.array(float(value))
    try:
        found = np.asarray(keras.ops.convert_to_numpy(value))
    except Exception:  # its kind depends on the value, and on the backend
        return None
    is_real = found.dtype == np.bool_ or np.issubdtype(found.dtype, np.floating)
    if not (is_real or np.issubdtype(found.dtype, np.integer)):
        return None
    return found.astype(np.float64)


def _check_alike(forms: dict[str, tuple[int, ...]], process_set: ProcessSet) -> None:
    every = allgather_object(forms, "metrics.forms", process_set)
    for name in sorted({name for one in every for name in one}):
        said = [_said(one.get(name)) for one in every]
        for of_rank, text in zip(process_set.ranks, said):
            if text != said[0]:
                raise MismatchError(
                    f"MetricAverageCallback: metric {name!r} is {text} on rank {of_rank}, but "
                    f"{said[0]} on rank {process_set.ranks[0]}; all ranks must have the same "
                    "metrics"
                )


def _said(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "no number"
    return f"an array {list(shape)}" if shape else "a number"
