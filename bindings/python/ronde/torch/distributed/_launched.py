"""The store of ranks that mpirun or srun has started, for torch.distributed's init method env://."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore

from ronde import _core
from ronde._collectives import objects
from ronde._job import runtime
from ronde._membership import joining
from ronde._rendezvous.addresses import own_address

_LOOPBACK = "127.0.0.1"


def rendezvous(
    original: Callable[..., Iterator[Any]],
    url: str,
    timeout: timedelta = dist.default_pg_timeout,
    **kwargs: Any,
) -> Iterator[Any]:
    """Yields (store, rank, size) of the job that the launcher describes.

    `original`: torch's handler. It is called without a launcher, and where MASTER_ADDR and
    MASTER_PORT say where the store is. Blocks until all ranks have come. Raises as init() does.
    """
    rank, size, job = _core.launched_job()
    if not job:
        yield from original(url, timeout=timeout, **kwargs)
    elif {"MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
        yield from original(f"{url}?rank={rank}&world_size={size}", timeout=timeout, **kwargs)
    else:
        yield _meet(timeout), rank, size


def _meet(timeout: timedelta) -> Store:
    """The store of rank 0, whose place it tells the others through a job of Ronde."""
    joined_here = not joining.is_initialized()
    joining.init()
    try:
        store = _serve(timeout) if joining.rank() == 0 else None
        mine = (_address(), store.port) if store else None
        address, port = objects.broadcast_object(mine, name="torch.distributed.store")
        return store or TCPStore(address, port, None, False, timeout)
    finally:
        if joined_here:
            joining.shutdown()


def _serve(timeout: timedelta) -> TCPStore:
    """A store of this process, on a free port."""
    return TCPStore(_LOOPBACK, 0, None, True, timeout, wait_for_workers=False)


def _address() -> str:
    """The address at which other ranks reach this host."""
    several = len(runtime.runtime().ranks_by_host()) > 1
    return (own_address() if several else "") or _LOOPBACK
