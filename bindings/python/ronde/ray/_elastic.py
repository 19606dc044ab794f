"""ElasticRayExecutor: calls a function on workers of a Ray cluster that may die and join."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import ray

from ronde._command import program
from ronde._errors import InvalidArgumentError, NotInitializedError, UnavailableError
from ronde._run import call, function
from ronde.ray._agents import Relay, start_agent
from ronde.ray._discovery import RayHostDiscovery
from ronde.ray._executor import refuse_callbacks
from ronde.ray._settings import ElasticSettings, HostDiscovery

_DISCOVERY_S = 1.0  # as often as `ronde run` asks


class ElasticRayExecutor:
    """Runs a function on all slots of a Ray cluster, as an elastic job: it goes on when workers or
    nodes die, and takes in nodes that join. The function uses ronde.elastic, as under `ronde run`.

    Threads: one. The cluster should be free for the job.
    """

    @staticmethod
    def create_settings(
        min_num_proc: int = 1,
        max_num_proc: int | None = None,
        reset_limit: int | None = None,
        elastic_timeout: float = 600,
        timeout_s: float = 30,
        ssh_identity_file: str | None = None,
        nics: Collection[str] | None = None,
        min_np: int | None = None,
        max_np: int | None = None,
        **more: Any,
    ) -> ElasticSettings:
        """Makes the settings; see ElasticSettings, which `more` may name, too.

        ssh_identity_file has no effect: Ronde needs no ssh there. min_np, max_np: deprecated names.

        Raises InvalidArgumentError with the name of the argument.
        """
        del ssh_identity_file
        for name, value in (("min_np", min_np), ("max_np", max_np)):
            if value is not None:
                warnings.warn(f"{name} is deprecated: {name[:3]}_num_proc", DeprecationWarning, 2)
        return ElasticSettings(
            min_num_proc if min_np is None else min_np,
            max_num_proc if max_np is None else max_np,
            reset_limit,
            elastic_timeout,
            timeout_s,
            nics,
            **more,
        )

    def __init__(
        self,
        settings: ElasticSettings | None = None,
        use_gpu: bool = False,
        cpus_per_slot: float = 1,
        gpus_per_slot: float | None = None,
        env_vars: Mapping[str, str] | None = None,
        override_discovery: bool = True,
    ) -> None:
        """Checks the arguments.

        use_gpu, cpus_per_slot, gpus_per_slot: what each worker takes; GPUs are one by default.
        env_vars: environment of the workers. override_discovery: find the hosts by
        RayHostDiscovery, not by settings.discovery.

        Raises InvalidArgumentError with the name of the argument.
        """
        self.settings = settings or ElasticSettings()
        self._nodes = RayHostDiscovery(use_gpu, cpus_per_slot, gpus_per_slot)
        if override_discovery:
            self.settings.discovery = self._nodes
        elif self.settings.discovery is None:
            raise InvalidArgumentError(
                "override_discovery=False, but settings.discovery is None: set it before"
            )
        self._environment = {name: str(value) for name, value in (env_vars or {}).items()}
        self._started = False

    def start(self) -> None:
        """Connects to Ray, unless this process is connected. run() starts the workers."""
        if not ray.is_initialized():
            ray.init()
        self._started = True

    def run(self, worker_fn: Callable[[], Any], callbacks: Any = None) -> list[Any]:
        """Calls worker_fn() on each worker. Returns the last epoch's results by rank. Blocks.

        What workers print goes to this process's streams, with [rank] before it.

        Raises Error with the traceback if the function fails; RankFailure, UnavailableError or
        Error with the launcher's reason if the job cannot go on.
        """
        refuse_callbacks(callbacks)
        if not self._started:
            raise NotInitializedError("the executor is not started: call start() before")
        with tempfile.TemporaryDirectory(prefix="ronde-ray-") as name:
            folder = Path(name)
            (folder / call.CALL).write_bytes(call.packed(worker_fn, (), {}))
            assert self.settings.discovery is not None
            with closing(_HostsFile(folder, self.settings.discovery)) as hosts:
                starter = functools.partial(self._start_agent, hosts)
                with closing(Relay(folder, starter)) as relay:
                    status = self._launch(folder, hosts.script, relay.write_shell())
            return call.last_results(folder, self.settings.min_num_proc, status)

    def _launch(self, folder: Path, script: Path, shell: Path) -> int:
        """Runs the job to its end; returns the launcher's exit status."""
        options = [*self.settings.options(), "--host-discovery-script", str(script)]
        options += ["--remote-shell", str(shell), "--call-folder", str(folder)]
        for name in self._environment:
            options += ["--env", name]  # values may be secret, and all users see arguments
        environment = {**os.environ, "PYTHONPATH": function.search_path(), **self._environment}
        environment.pop("CUDA_VISIBLE_DEVICES", None)  # each agent's comes from Ray
        return subprocess.run(
            [program(), "run", *options, "--", sys.executable, "-m", "ronde._run.rank"],
            env=environment,
            check=False,
        ).returncode

    def _start_agent(self, hosts: _HostsFile, host: str) -> Any:
        nodes, slots = self._nodes.nodes(), hosts.newest.get(host, 1)
        if host not in nodes:
            raise UnavailableError(f"Ray has no node {host} alive; it has {', '.join(nodes)}")
        most = self.settings.max_num_proc or slots
        return start_agent(nodes[host], self._nodes.each.bundle(min(slots, most)))


class _HostsFile:
    """Keeps a file of the hosts up to date, and a script that prints it. Has a thread."""

    def __init__(self, folder: Path, discovery: HostDiscovery) -> None:
        """Writes both. Raises what the discovery raises."""
        self._path, self._discovery = folder / "hosts", discovery
        self.newest: dict[str, int] = {}  # slots by host
        self._ending = threading.Event()
        self._write()
        self.script = folder / "discovery"
        self.script.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(self._path))}\n")
        self.script.chmod(0o700)
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        self.newest = hosts = self._discovery.find_available_hosts_and_slots()
        part = self._path.with_suffix(".part")
        part.write_text("".join(f"{name}:{slots}\n" for name, slots in hosts.items()))
        part.rename(self._path)

    def _keep(self) -> None:
        while not self._ending.wait(_DISCOVERY_S):
            try:
                self._write()
            except Exception as error:
                print(f"ronde.ray: cannot list the nodes: {error}", file=sys.stderr, flush=True)

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
