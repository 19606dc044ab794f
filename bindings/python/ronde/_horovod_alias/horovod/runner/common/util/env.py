"""The rank and the size by the launcher's variables."""

from __future__ import annotations

import os

__all__ = ["get_env_rank_and_size"]

_PAIRS = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def get_env_rank_and_size() -> tuple[int, int]:
    """(rank, size) of this process; (0, 1) without a launcher. Needs no init()."""
    for rank, size in _PAIRS:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
