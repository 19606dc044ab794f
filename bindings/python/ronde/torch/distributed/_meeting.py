"""How the processes of torch.distributed become one Ronde job, whoever started them."""

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
    """Whether this module joined the job, how often, and how many groups still need it."""

    joined_here = False
    joins = 0
    groups = 0


_membership = _Membership()


def enter(store: Store, rank: int, size: int, timeout: timedelta) -> None:
    """Joins the job of `size` ranks as `rank`, or checks that this process is in it already.

    Blocks until all have come. `store` is torch's, the same for all ranks. Each enter() that
    succeeds is followed by one leave().
    """
    if not _job.is_initialized():
        _job.init(settings=_settings(store, rank, size, timeout))
        _membership.joined_here = True
    if (_job.rank(), _job.size()) != (rank, size):
        raise InvalidArgumentError(
            f"torch.distributed calls this process rank {rank} of {size}, but in the Ronde job it "
            f"is rank {_job.rank()} of {_job.size()}; start both with the same ranks"
        )
    _membership.groups += 1


def leave() -> None:
    """Ends the job with its last group, where enter() had joined it."""
    _membership.groups -= 1
    if _membership.groups == 0 and _membership.joined_here:
        _membership.joined_here = False
        _job.shutdown()


def _settings(store: Store, rank: int, size: int, timeout: timedelta) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if timeout < _START_LIMIT and "RONDE_START_TIMEOUT_MS" not in os.environ:
        settings["RONDE_START_TIMEOUT_MS"] = int(timeout.total_seconds() * 1000)
    if "RONDE_SIZE" in os.environ and _core.launched_job()[:2] == (rank, size):
        return settings  # started by `ronde run`: the environment says it all
    _membership.joins += 1
    key = f"ronde/{_membership.joins}"  # the store may outlive a job
    if rank == 0:
        store.set(f"{key}/host", _host())
        store.set(f"{key}/job", f"torch-{uuid.uuid4().hex}")
    _check_host(store.get(f"{key}/host").decode())
    job = store.get(f"{key}/job").decode()
    return {**settings, "RONDE_RANK": rank, "RONDE_SIZE": size, "RONDE_JOB_ID": job}


def _host() -> str:
    """Alike for processes that can meet without the network."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{os.uname().nodename} {boot} {Path('/proc/self/ns/net').stat().st_ino}"


def _check_host(first: str) -> None:
    """Says at once what would otherwise end in a timeout."""
    mine = _host()
    if mine == first or "RONDE_RENDEZVOUS" in os.environ:
        return
    raise InvalidArgumentError(
        f"rank 0 runs on {first.split()[0]}, this process on {mine.split()[0]}: a job on several "
        "hosts needs RONDE_RENDEZVOUS and RONDE_SECRET_FILE, alike on all of them "
        "(docs/launching.md)"
    )
