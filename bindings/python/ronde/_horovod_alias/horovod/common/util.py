"""The helpers of Horovod that scripts and test suites import."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterable, Iterator
from typing import Any

from ronde._job import ccl_built, cuda_built, ddl_built, gloo_built, mpi_built, nccl_built

__all__ = [
    "ccl_built",
    "ddl_built",
    "env",
    "extension_available",
    "gloo_built",
    "gpu_available",
    "is_iterable",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "split_list",
]
_cache = functools.cache


@contextlib.contextmanager
def env(**variables: str | None) -> Iterator[None]:
    """Sets environment variables (None: unsets them) and puts back what was there before."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """True if there is a ronde package for this framework ("torch", ...), and the framework."""
    found = [importlib.util.find_spec(name) for name in (f"ronde.{ext_base_name}", ext_base_name)]
    if verbose:
        print(f"ronde.{ext_base_name}: {found[0]}; {ext_base_name}: {found[1]}")
    return None not in found


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """True if tensors on GPUs can be used."""
    return cuda_built() and extension_available(ext_base_name, verbose)


def split_list(values: list[Any], parts: int) -> list[list[Any]]:
    """Cuts a list into so many runs whose lengths differ by one at most."""
    width, more = divmod(len(values), parts)
    starts = [part * width + min(part, more) for part in range(parts + 1)]
    return [values[begin:end] for begin, end in zip(starts, starts[1:])]


def num_rank_is_power_2(num_rank: int) -> bool:
    """True if a number of ranks is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def is_iterable(value: Any) -> bool:
    """True if a value can be iterated over."""
    return isinstance(value, Iterable)
