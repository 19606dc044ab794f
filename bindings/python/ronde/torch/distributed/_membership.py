"""Joins the processes of torch.distributed to one Ronde job, with any launcher."""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch._C._distributed_c10d import Store

from ronde import _core, _job
from ronde._errors import InvalidArgumentError

_START_LIMIT = timedelta(seconds=60)


class _Membership:
    """This module's membership in the job: if it joined, and the number of groups that use it."""

    joined_here = False
    rendezvous = 0
    groups = 0


_state = _Membership()


def enter(store: Store, rank: int, size: int, timeout: timedelta) -> None:
    """Joins the job of `size` ranks as `rank`, or checks that this process is in it already.

    Blocks until all ranks have called it. `store` is torch's, the same for all ranks. Each
    successful enter() needs one leave().
    """
    if not _job.is_initialized():
        _job.init(settings=_settings(store, rank, size, timeout))
        _state.joined_here = True
    if (_job.rank(), _job.size()) != (rank, size):
        raise InvalidArgumentError(
            f"torch.distributed calls this process rank {rank} of {size}, but in the Ronde job it "
            f"is rank {_job.rank()} of {_job.size()}; start both with the same ranks"
        )
    _state.groups += 1


def leave() -> None:
    """Leaves the job with the last group, if enter() joined it."""
    _state.groups -= 1
    if _state.groups == 0 and _state.joined_here:
        _state.joined_here = False
        _job.shutdown()


def _settings(store: Store, rank: int, size: int, timeout: timedelta) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if timeout < _START_LIMIT and "RONDE_START_TIMEOUT_MS" not in os.environ:
        settings["RONDE_START_TIMEOUT_MS"] = int(timeout.total_seconds() * 1000)
    if "RONDE_SIZE" in os.environ and _core.launched_job()[:2] == (rank, size):
        return settings  # `ronde run` started it: the environment has all settings
    _state.rendezvous += 1
    key = f"ronde/{_state.rendezvous}"  # the store may live longer than a job
    if rank == 0:
        store.set(f"{key}/host", _host())
        store.set(f"{key}/job", f"torch-{uuid.uuid4().hex}")
    _check_host(store.get(f"{key}/host").decode())
    job = store.get(f"{key}/job").decode()
    return {**settings, "RONDE_RANK": rank, "RONDE_SIZE": size, "RONDE_JOB_ID": job}


def _host() -> str:
    """Equal for processes that can connect without the network."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{os.uname().nodename} {boot} {Path('/proc/self/ns/net').stat().st_ino}"


def _check_host(first: str) -> None:
    """Raises at once for ranks on several hosts without settings, which would time out."""
    mine = _host()
    if mine == first or "RONDE_RENDEZVOUS" in os.environ:
        return
    raise InvalidArgumentError(
        f"rank 0 runs on {first.split()[0]}, this process on {mine.split()[0]}: a job on several "
        "hosts needs RONDE_RENDEZVOUS and RONDE_SECRET_FILE, alike on all of them "
        "(docs/launching.md)"
    )
