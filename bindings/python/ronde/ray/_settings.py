"""Settings of executors, and the check of their arguments."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ronde._errors import InvalidArgumentError


@dataclass
class Settings:
    """Settings of RayExecutor.

    timeout_s: seconds in which ranks must meet in init(). placement_group_timeout_s: seconds in
    which Ray must find room for the workers and start them. nics: the network interface for
    connections between nodes, as a collection of one name; Ray's addresses by default.
    """

    timeout_s: float = 30
    placement_group_timeout_s: float = 100
    nics: Collection[str] | None = None

    def __post_init__(self) -> None:
        for name in ("timeout_s", "placement_group_timeout_s"):
            check_above(name, getattr(self, name), 0)
        if self.nics is not None and len(list(self.nics)) > 1 and not isinstance(self.nics, str):
            raise InvalidArgumentError(
                f"nics={sorted(self.nics)}: ranks use one network interface; give only that"
            )

    def environment(self) -> dict[str, str]:
        """The variables of each rank that these settings make."""
        found = {}
        if "RONDE_START_TIMEOUT_MS" not in os.environ:
            found["RONDE_START_TIMEOUT_MS"] = str(int(self.timeout_s * 1000))
        names = [self.nics] if isinstance(self.nics, str) else list(self.nics or ())
        if names:
            found["RONDE_NETWORK_INTERFACE"] = names[0]
        return found


@dataclass
class Resources:
    """What one worker needs."""

    cpus: float
    gpus: float

    @classmethod
    def of(cls, cpus: float, use_gpu: bool, gpus: float | None, word: str) -> Resources:
        """Checks Horovod's arguments. word: "worker" or "slot", as their names have it."""
        check_above(f"cpus_per_{word}", cpus, 0)
        if gpus and not use_gpu:
            raise InvalidArgumentError(
                f"gpus_per_{word}={gpus} needs use_gpu=True, but use_gpu is False"
            )
        if use_gpu and gpus is not None:
            check_above(f"gpus_per_{word}", gpus, 0)
        return cls(cpus, (gpus or 1) if use_gpu else 0)

    def bundle(self, workers: int = 1) -> dict[str, float]:
        """The resources of so many workers, in Ray's words."""
        amounts = {"CPU": self.cpus * workers, "GPU": self.gpus * workers}
        return {name: amount for name, amount in amounts.items() if amount}


def check_above(name: str, value: Any, bound: float) -> None:
    """Raises InvalidArgumentError unless value is a number above the bound."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= bound:
        raise InvalidArgumentError(f"{name}={value!r}; allowed: numbers above {bound}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raises InvalidArgumentError unless value is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgumentError(f"{name}={value!r}; allowed: whole numbers from {least}")
