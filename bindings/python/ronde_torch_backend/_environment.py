"""Lets init_process_group() find the job of mpirun and srun, which set no RANK.

torch.distributed reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and fails without them. Then
the ranks meet as those of ronde.init() do.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any

Handler = Callable[..., Iterator[Any]]


def install() -> None:
    """Serves the init method env:// where its variables are missing. Again: a no-op."""
    module = importlib.import_module("torch.distributed.rendezvous")
    handlers = getattr(module, "_rendezvous_handlers", {})
    original = handlers.get("env")
    if original is not None and not hasattr(original, "__wrapped__"):
        handlers["env"] = _with_launchers(original)


def _with_launchers(original: Handler) -> Handler:
    @functools.wraps(original)
    def rendezvous(url: str, *args: Any, **kwargs: Any) -> Iterator[Any]:
        if "RANK" in os.environ or "WORLD_SIZE" in os.environ or "?" in url:
            return original(url, *args, **kwargs)
        from ronde.torch.distributed._launched import rendezvous as by_launcher

        return by_launcher(original, url, *args, **kwargs)

    return rendezvous
