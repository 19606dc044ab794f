"""Settings of executors, and the check of their arguments."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ronde._errors import InvalidArgumentError


class HostDiscovery(Protocol):
    """Finds the hosts of an elastic job, again and again."""

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Slots by the name of each host."""


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
        only_nic(self.nics)

    def environment(self) -> dict[str, str]:
        """The variables of each rank that these settings make."""
        found = {}
        if "RONDE_START_TIMEOUT_MS" not in os.environ:
            found["RONDE_START_TIMEOUT_MS"] = str(int(self.timeout_s * 1000))
        interface = only_nic(self.nics)
        if interface:
            found["RONDE_NETWORK_INTERFACE"] = interface
        return found


@dataclass
class ElasticSettings:
    """Settings of ElasticRayExecutor.

    min_num_proc, max_num_proc: workers of the job, at least and at most; None: all slots.
    reset_limit: the job fails instead of changing its workers more often; None: any number.
    elastic_timeout: seconds to wait for enough workers. timeout_s: seconds in which the agent of a
    node must start. nics: as in Settings. cooldown_range: two numbers of seconds for which a node
    is not used after a failure; None: a failed worker is replaced there. verbose: print what is
    started. discovery: finds the hosts; ElasticRayExecutor sets it.
    """

    min_num_proc: int = 1
    max_num_proc: int | None = None
    reset_limit: int | None = None
    elastic_timeout: float = 600
    timeout_s: float = 30
    nics: Collection[str] | None = None
    cooldown_range: Sequence[float] | None = None
    verbose: int = 0
    discovery: HostDiscovery | None = None

    def __post_init__(self) -> None:
        check_count("min_num_proc", self.min_num_proc)
        if self.max_num_proc is not None:
            check_count("max_num_proc", self.max_num_proc, self.min_num_proc)
        if self.reset_limit is not None:
            check_count("reset_limit", self.reset_limit, 0)
        for name in ("elastic_timeout", "timeout_s"):
            check_above(name, getattr(self, name), 0)
        if self.cooldown_range is not None and len(self.cooldown_range) != 2:
            raise InvalidArgumentError(f"cooldown_range={self.cooldown_range!r}; allowed: MIN, MAX")
        only_nic(self.nics)

    def options(self) -> list[str]:
        """The options of `ronde run`."""
        given = {
            "--min-np": self.min_num_proc,
            "--max-np": self.max_num_proc,
            "--reset-limit": self.reset_limit,
            "--elastic-timeout": self.elastic_timeout,
            "--start-timeout": self.timeout_s,
            "--network-interface": only_nic(self.nics),
        }
        found = [str(part) for pair in given.items() if pair[1] is not None for part in pair]
        if self.cooldown_range is not None:
            found += ["--on-failure", "blacklist", "--blacklist-cooldown-range"]
            found += [str(seconds) for seconds in self.cooldown_range]
        return [*found, *(["--verbose"] if self.verbose else [])]


@dataclass
class Resources:
    """The resources that one worker needs."""

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


def only_nic(nics: Collection[str] | None) -> str | None:
    """The one network interface; None without one. Raises InvalidArgumentError for several."""
    names = [nics] if isinstance(nics, str) else list(nics or ())
    if len(names) > 1:
        raise InvalidArgumentError(
            f"nics={sorted(names)}: a collection has no order, by which interfaces of several "
            "nodes belong together; give one, or set RONDE_NETWORK_INTERFACE=eth0,eth1"
        )
    return names[0] if names else None


def check_above(name: str, value: Any, bound: float) -> None:
    """Raises InvalidArgumentError unless value is a number above the bound."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= bound:
        raise InvalidArgumentError(f"{name}={value!r}; allowed: numbers above {bound}")


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Raises InvalidArgumentError unless value is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgumentError(f"{name}={value!r}; allowed: whole numbers from {least}")
