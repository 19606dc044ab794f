"""Jobs of several torchrun agents: their ranks meet in torchrun's store."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ronde import _core
from ronde._errors import UnavailableError

_THIS_HOST = ("", "localhost", "127.0.0.1", "::1")


def agreed_settings(settings: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings on which the ranks of several agents agree; blocks until all have come.

    `settings`: those of a job of some ranks; empty: all. `chosen`: the caller's. Empty for one
    agent, and where the user has said how they meet. Raises UnavailableError with what to set for
    PyTorch before 2.11.
    """
    agents = os.environ.get("GROUP_WORLD_SIZE", "1")
    if "TORCHELASTIC_RUN_ID" not in os.environ or agents == "1":
        return {}
    known = {*os.environ, *chosen}
    secret = {"RONDE_SECRET_FILE", "RONDE_SECRET_FD"} & known
    if "RONDE_SIZE" in known or ("RONDE_RENDEZVOUS" in known and secret):
        return {}
    try:
        from ronde._rendezvous.settings import job_settings  # imports torch, which is optional
    except ImportError as error:
        if os.environ.get("MASTER_ADDR", "") in _THIS_HOST:
            return {}  # one host needs no store
        raise UnavailableError(
            f"torchrun has started ranks by {agents} agents, which meet in its store from PyTorch "
            "2.11 on only; here set RONDE_RENDEZVOUS=ADDRESS:PORT, of rank 0's host, and "
            "RONDE_SECRET_FILE=PATH, a file that is the same on all hosts"
        ) from error
    mine, count, _ = _core.launched_job()
    rank, size = int(settings.get("RONDE_RANK", mine)), int(settings.get("RONDE_SIZE", count))
    agreed = job_settings(rank, size, settings.get("RONDE_JOB_ID", ""), chosen)
    return {name: str(value) for name, value in agreed.items()}
