"""The settings of a job whose ranks meet in a store of torch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from ronde._errors import UnavailableError
from ronde._rendezvous.peers import Peer, refuse_orphan
from ronde._rendezvous.secret import SecretFile
from ronde._rendezvous.store import Agreement, Rendezvous, attempt_scope

_START_LIMIT_S = 60.0


class _Kept:
    store: Store | None = None


_kept = _Kept()
_secret_file = SecretFile()


def job_settings(
    rank: int, size: int, ranks: str = "", chosen: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The settings of a job that all of `size` ranks have agreed on in torchrun's store.

    `ranks`: names a job of some ranks of torchrun's only. `chosen`: the settings that this process
    has, over those in the environment. Blocks until all have come. Raises TimeoutError with the
    missing ranks, UnavailableError if the store cannot be reached.
    """
    refuse_orphan()
    limit_s = start_limit_s(timedelta.max)
    scope = f"init{ranks}/{attempt_scope()}"
    try:
        store, own_rank, _ = next(rendezvous("env://", timeout=timedelta(seconds=limit_s)))
        keep_store(store, own_rank)
        me = Peer.me(chosen=chosen)
        agreed = Rendezvous(store, scope, rank, size, me, limit_s, limit_s).agree()
    except dist.DistError as error:
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise UnavailableError(
            f"rank {rank} on {os.uname().nodename} cannot reach torchrun's store at {place} "
            f"(MASTER_ADDR, MASTER_PORT) within {limit_s:g} s: {error}"
        ) from error
    return settings_of(agreed, rank, limit_s)


def start_limit_s(timeout: timedelta) -> float:
    """Seconds that a start waits for ranks: not more than the group's timeout."""
    chosen = os.environ.get("RONDE_START_TIMEOUT_MS", "")
    limit_s = int(chosen) / 1000 if chosen.isdigit() else _START_LIMIT_S
    return min(limit_s, timeout.total_seconds())


def keep_store(store: Store, rank: int) -> None:
    """Keeps the store until the next start: ranks that start again earlier than rank 0 use it.

    It lives in rank 0 of torch, unless torchrun's agent has it.
    """
    agent_has_it = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    _kept.store = store if rank == 0 and not agent_has_it else None


def settings_of(agreed: Agreement, rank: int, limit_s: float) -> dict[str, Any]:
    """The settings of a job that its ranks agree on; without a name those of the launcher."""
    settings: dict[str, Any] = {}
    if "RONDE_START_TIMEOUT_MS" not in os.environ:
        settings["RONDE_START_TIMEOUT_MS"] = int(limit_s * 1000)
    if not agreed.job:
        return settings
    settings.update(RONDE_RANK=rank, RONDE_SIZE=len(agreed.peers), RONDE_JOB_ID=agreed.job)
    if agreed.place:
        settings["RONDE_RENDEZVOUS"] = agreed.place
    if agreed.secret:
        settings["RONDE_SECRET_FILE"] = _secret_file.keep(agreed.secret)
        if rank == 0:
            _warn_of_store()
    return settings


def _warn_of_store() -> None:
    place = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}".strip(":")
    warnings.warn(
        f"the job's secret went through torch's store{place and f' at {place}'}: who can reach the "
        "store can join the job; RONDE_SECRET_FILE, alike on all hosts, prevents that",
        stacklevel=2,
    )
