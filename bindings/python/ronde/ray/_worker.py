"""The processes of a job on Ray: the actor of one rank, and what it does to become one."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray

from ronde._membership import joining
from ronde._membership.function_guard import FunctionGuard
from ronde._rendezvous.secret import SecretFile
from ronde.ray._places import Place

_secret_file = SecretFile()  # the newest secret


def here() -> Place:
    """The place of this process, which Ray has started."""
    context = ray.get_runtime_context()
    gpus = context.get_accelerator_ids().get("GPU", [])
    address = ray.util.get_node_ip_address()
    return Place(
        context.get_node_id(), address, socket.gethostname(), os.getpid(), tuple(map(str, gpus))
    )


def free_ports(address: str, count: int = 2) -> list[int]:
    """TCP ports that are free at this node's address, below those that the kernel gives away."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 200):
        with socket.socket(family) as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"found no {count} free TCP ports at {address} from 20000 to 32000")


def enter(environment: Mapping[str, str], secret: str) -> None:
    """Makes this process a rank: init() will find its job. Joins nothing yet.

    Leaves the job that this process was in: nothing of it can meet the new one's operations.
    secret: 64 hexadecimal digits. They stay in a memory file, which processes that this one starts
    find too.
    """
    joining.leave(keep=False)
    for name in ("RONDE_RENDEZVOUS", "RONDE_DESCRIPTORS", "RONDE_SECRET_FD"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    os.environ["RONDE_SECRET_FILE"] = _secret_file.keep(secret)


class Worker:
    """One rank, as a Ray actor. It runs one call at a time.

    A function that raises ends the job: see FunctionGuard. enter() begins a new one.
    """

    def __init__(self) -> None:
        self.executable: Any = None
        self._guard = FunctionGuard()

    def place(self) -> Place:
        """The place where this worker runs. Answers once the worker can take calls."""
        return here()

    def free_ports(self, address: str) -> list[int]:
        """Two free ports at this node's address."""
        return free_ports(address)

    def enter(self, environment: Mapping[str, str], secret: str) -> None:
        """Makes this worker a rank of a new job."""
        self._guard.renew()
        enter(environment, secret)

    def has_failed(self) -> bool:
        """True if a function of this job has raised an exception here."""
        return bool(self._guard.failure)

    def start_executable(
        self, kind: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Makes the object that execute() hands to functions."""
        self.executable = kind(*args, **kwargs)

    def execute(self, function: Callable[[Any], Any]) -> Any:
        """Calls function(executable)."""
        return self._guard.call(lambda: function(self.executable))

    def call(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Calls function(*args, **kwargs)."""
        return self._guard.call(lambda: function(*args, **kwargs))
