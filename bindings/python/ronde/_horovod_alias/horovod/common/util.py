"""The helpers of Horovod that scripts and test suites import."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ronde._calls.reduce_ops import reduce_op
from ronde._errors import InvalidArgumentError
from ronde._job.builds import ccl_built, cuda_built, ddl_built, gloo_built, mpi_built, nccl_built
from ronde.common.exceptions import HorovodVersionMismatchError, get_version_mismatch_message

__all__ = [
    "EXTENSIONS",
    "HorovodVersionMismatchError",
    "ccl_built",
    "check_extension",
    "check_installed_version",
    "ddl_built",
    "env",
    "extension_available",
    "get_average_backwards_compatibility_fun",
    "get_ext_suffix",
    "get_extension_full_path",
    "get_version_mismatch_message",
    "gloo_built",
    "gpu_available",
    "is_iterable",
    "is_version_greater_equal_than",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "split_list",
]
_cache = functools.cache

EXTENSIONS = ["tensorflow", "torch"]


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


def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """True if version `ver` is `target` (major.minor.patch) or newer.

    Raises InvalidArgumentError (a ValueError) for other values.
    """
    from packaging import version

    if not (isinstance(ver, str) and isinstance(target, str)):
        raise InvalidArgumentError(f"versions are texts, not {ver!r} and {target!r}")
    if target.count(".") != 2:
        raise InvalidArgumentError(f"version {target!r}; allowed: major.minor.patch")
    return version.parse(ver) >= version.parse(target)


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[[Any, Any], int]:
    """A function that gives the operation which `op` and `average` select together."""
    del reduce_ops
    return lambda op, average: reduce_op(average, op)


def get_ext_suffix() -> str:
    """The end of the file names of Python's extension modules."""
    return str(sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def get_extension_full_path(pkg_path: str, *names: str) -> str:
    """The path of an extension module, `names`, beside the module at `pkg_path`."""
    return os.path.join(os.path.dirname(pkg_path), *names) + get_ext_suffix()


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *names: str) -> None:
    """Raises ImportError if there is no ronde package for Horovod's module `ext_name`."""
    del ext_env_var, pkg_path, names
    if not extension_available(ext_name.rpartition(".")[2]):
        raise ImportError(f"Ronde has no {ext_name}, or its framework is not installed")


def check_installed_version(name: str, version: str, exception: Any = None) -> None:
    """Does nothing: Ronde adapts to the installed framework when it is imported."""
    del name, version, exception
