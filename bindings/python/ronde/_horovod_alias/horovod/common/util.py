"""The helpers of Horovod that scripts and test suites import."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections.abc import Iterable, Iterator
from typing import Any

from ronde._job import ccl_built as _ccl_built
from ronde._job import cuda_built as _cuda_built
from ronde._job import ddl_built as _ddl_built
from ronde._job import gloo_built as _gloo_built
from ronde._job import mpi_built as _mpi_built
from ronde._job import nccl_built as _nccl_built

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
    """Whether there is a ronde package for this framework ("torch", ...), and the framework."""
    found = [importlib.util.find_spec(name) for name in (f"ronde.{ext_base_name}", ext_base_name)]
    if verbose:
        print(f"ronde.{ext_base_name}: {found[0]}; {ext_base_name}: {found[1]}")
    return None not in found


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether tensors on GPUs can be used."""
    return _cuda_built() and extension_available(ext_base_name, verbose)


def mpi_built(verbose: bool = False) -> bool:
    """Whether the MPI backend was built."""
    return _mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Whether the Gloo backend was built."""
    return _gloo_built()


def nccl_built(verbose: bool = False) -> bool:
    """Whether the NCCL backend was built."""
    return bool(_nccl_built())


def ddl_built(verbose: bool = False) -> bool:
    """Always False."""
    return _ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """Always False."""
    return _ccl_built()


def split_list(values: list[Any], parts: int) -> list[list[Any]]:
    """Cuts a list into so many runs whose lengths differ by one at most."""
    width, more = divmod(len(values), parts)
    starts = [part * width + min(part, more) for part in range(parts + 1)]
    return [values[begin:end] for begin, end in zip(starts, starts[1:])]


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def is_iterable(value: Any) -> bool:
    """Whether a value can be iterated over."""
    return isinstance(value, Iterable)
