"""The backends that this build has, with Horovod's names."""

from __future__ import annotations

import os
from pathlib import Path

from ronde._job.runtime import runtime

_PACKAGE = Path(__file__).resolve().parents[1]


def _has_module(name: str) -> bool:
    return (_PACKAGE / f"libronde_{name}.so").exists()


def mpi_built(verbose: bool = False) -> bool:
    """True if the MPI backend was built. All such functions take Horovod's `verbose`."""
    return _has_module("mpi")


def gloo_built(verbose: bool = False) -> bool:
    """True if the Gloo backend was built."""
    return _has_module("gloo")


def nccl_built(verbose: bool = False) -> int:
    """1 if the NCCL backend was built, else 0. `ronde doctor` tells if NCCL itself is installed."""
    return int(_has_module("nccl"))


def cuda_built(verbose: bool = False) -> bool:
    """True if the CUDA backend was built."""
    return _has_module("cuda")


def rocm_built() -> bool:
    """Always False."""
    return False


def ddl_built(verbose: bool = False) -> bool:
    """Always False."""
    return False


def ccl_built(verbose: bool = False) -> bool:
    """Always False."""
    return False


def mpi_enabled() -> bool:
    """True if this job's data plane is MPI."""
    runtime()
    return os.environ.get("RONDE_BACKEND") == "mpi"


def gloo_enabled() -> bool:
    """True if this job's data plane is Gloo."""
    runtime()
    return os.environ.get("RONDE_BACKEND") == "gloo"


def mpi_threads_supported() -> bool:
    """True if several threads may call MPI. Ronde does not need it."""
    runtime()
    return mpi_built()
