"""Joins the ranks of several torchrun agents to one job, through the store of torchrun."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from ronde._errors import UnavailableError
from ronde.torch.distributed import _membership
from ronde.torch.distributed._peers import Peer, refuse_orphan
from ronde.torch.distributed._rendezvous import Meeting, attempt_scope


def job_settings(
    rank: int, size: int, ranks: str = "", chosen: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The settings of a job that all of `size` ranks have agreed on in torchrun's store.

    `ranks`: names a job of some ranks of torchrun's only. `chosen`: the settings that this process
    has, over those in the environment. Blocks until all have come. Raises TimeoutError with the
    missing ranks, UnavailableError if the store cannot be reached.
    """
    refuse_orphan()
    limit_s = _membership.start_limit_s(timedelta.max)
    scope = f"init{ranks}/{attempt_scope()}"
    try:
        store, own_rank, _ = next(rendezvous("env://", timeout=timedelta(seconds=limit_s)))
        _membership.keep_store(store, own_rank)
        me = Peer.me(chosen=chosen)
        agreed = Meeting(store, scope, rank, size, me, limit_s, limit_s).agree()
    except dist.DistError as error:
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise UnavailableError(
            f"rank {rank} on {os.uname().nodename} cannot reach torchrun's store at {place} "
            f"(MASTER_ADDR, MASTER_PORT) within {limit_s:g} s: {error}"
        ) from error
    return _membership.settings_of(agreed, rank, limit_s)
