"""Jobs of several torchrun agents: their ranks meet in torchrun's store."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ronde import _core


def agreed_settings(settings: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings on which the ranks of several agents agree; blocks until all have come.

    `settings`: those of a job of some ranks; empty: all. `chosen`: the caller's. Empty for one
    agent, where the user has said how they meet, and for PyTorch before 2.11.
    """
    agents = os.environ.get("GROUP_WORLD_SIZE", "1")
    if "TORCHELASTIC_RUN_ID" not in os.environ or agents == "1":
        return {}
    known = {*os.environ, *chosen}
    secret = {"RONDE_SECRET_FILE", "RONDE_SECRET_FD"} & known
    if "RONDE_SIZE" in known or ("RONDE_RENDEZVOUS" in known and secret):
        return {}
    try:
        from ronde.torch.distributed._agents import job_settings  # it imports torch
    except ImportError:
        return {}
    mine, count, _ = _core.launched_job()
    rank, size = int(settings.get("RONDE_RANK", mine)), int(settings.get("RONDE_SIZE", count))
    agreed = job_settings(rank, size, settings.get("RONDE_JOB_ID", ""), chosen)
    return {name: str(value) for name, value in agreed.items()}
