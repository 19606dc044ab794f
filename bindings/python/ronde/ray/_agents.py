"""The agents of an elastic job on Ray: an actor on each node, and the way to them.

`ronde run` starts a program in place of ssh (_remote_shell.py). It connects to the relay here,
which starts an actor on the node. The actor runs `ronde run-agent`. Bytes go through its calls.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ronde._command import program
from ronde.ray._failures import reason_of

_PIECE = 1 << 20
# In which an agent's workers may save and end, in seconds. The agent itself gives them 5.
_END_S = 10.0


class AgentActor:
    """One agent. One call writes while another one reads."""

    def __init__(self, address: str) -> None:
        """address: at which other nodes reach this one."""
        environment = {**os.environ, "RONDE_AGENT_ADDRESS": address}
        environment.pop("OMP_NUM_THREADS", None)  # Ray's choice, for one process with all the CPUs
        self._agent = subprocess.Popen(
            [program(), "run-agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=environment,
        )
        assert self._agent.stdin is not None
        assert self._agent.stdout is not None
        self._input, self._output = self._agent.stdin, self._agent.stdout

    def write(self, piece: bytes) -> None:
        """Hands bytes of the launcher to the agent. Blocks while the agent does not read them."""
        left = memoryview(piece)
        while left:
            left = left[self._input.write(left) :]

    def read(self) -> bytes:
        """The next bytes of the agent; none at its end. Blocks until there are some."""
        return self._output.read(_PIECE) or b""

    def close(self) -> None:
        """Ends the agent and its workers. Blocks until they are gone."""
        self._input.close()
        self._agent.wait()


class Relay:
    """Connects the launcher's remote shells to the agents. Threads: one of its own for each."""

    def __init__(self, folder: Path, make_agent: Callable[[str], Any]) -> None:
        """folder: of this user alone. make_agent: starts the actor of a host, given its name."""
        self._folder, self._make_agent = folder, make_agent
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "relay"))
        self._listener.listen(64)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def write_shell(self) -> Path:
        """Makes the program for `ronde run --remote-shell`."""
        script = Path(__file__).with_name("_remote_shell.py")
        words = [sys.executable, "-I", "-S", str(script), str(self._folder / "relay")]
        path = self._folder / "remote-shell"
        path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        path.chmod(0o700)
        return path

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # close()
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Keeps one agent, for as long as both the launcher and the agent are there."""
        with connection:
            host = connection.makefile("rb", buffering=0).readline().decode().strip()
            try:
                agent = self._make_agent(host)
            except Exception as error:
                print(f"ronde.ray: {host}: {error}", file=sys.stderr, flush=True)
                return
            ending = threading.Event()
            arguments = (agent, connection, host, ending)
            output = threading.Thread(target=_pass_output, args=arguments, daemon=True)
            output.start()
            _pass_input(connection, agent, ending)
            output.join()

    def close(self) -> None:
        """Waits for the end of all connections: the launcher has ended."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


def _pass_input(connection: socket.socket, agent: Any, ending: threading.Event) -> None:
    """From the launcher to the agent, and its end."""
    spoken = False  # the launcher waits for the agent's greeting: until then the actor may not run
    with contextlib.suppress(ray.exceptions.RayError, OSError):
        while piece := connection.recv(_PIECE):
            spoken = True
            ray.get(agent.write.remote(piece))
    ending.set()
    if spoken:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.wait([agent.close.remote()], timeout=_END_S)
    ray.kill(agent)


def _pass_output(agent: Any, connection: socket.socket, host: str, ending: threading.Event) -> None:
    """From the agent to the launcher, and its end."""
    try:
        while piece := ray.get(agent.read.remote()):
            connection.sendall(piece)
    except ray.exceptions.RayError as error:
        if not ending.is_set():
            print(f"ronde.ray: {host}: {reason_of(error)}", file=sys.stderr, flush=True)
    except OSError:
        return  # the launcher has gone
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def start_agent(node: dict[str, Any], resources: dict[str, float]) -> Any:
    """Starts the actor of a node's agent, without a wait. resources: for all its workers."""
    kind = ray.remote(AgentActor).options(
        num_cpus=resources.get("CPU", 0),
        num_gpus=resources.get("GPU", 0),
        max_concurrency=3,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
    )
    return kind.remote(node["NodeManagerAddress"])
