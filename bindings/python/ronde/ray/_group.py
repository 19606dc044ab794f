"""The workers of one job: their room in the cluster, their start, their end."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_current_placement_group,
    placement_group,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ronde._errors import TimeoutError
from ronde.ray import _failures
from ronde.ray._places import Place, by_node, job_environment, rank_environments
from ronde.ray._settings import Resources
from ronde.ray._worker import Worker


@dataclass
class Layout:
    """The number of workers. hosts: 0 if Ray may place them on any nodes."""

    workers: int
    hosts: int
    each: Resources
    use_current: bool

    def bundles(self) -> list[dict[str, float]]:
        """The bundles of a placement group: one for each host, or for each worker."""
        if self.hosts:
            return [self.each.bundle(self.workers // self.hosts)] * self.hosts
        return [self.each.bundle()] * self.workers


class WorkerGroup:
    """Actors that are the ranks of one job. Threads: one."""

    def __init__(self) -> None:
        self.workers: list[Any] = []  # by rank
        self.places: list[Place] = []
        self._own_group: PlacementGroup | None = None
        self._environment: dict[str, str] = {}
        self._unknown: list[Any] = []  # calls of which nobody has said how they ended
        self._failed = False  # a function of this job has

    def start(self, layout: Layout, limit_s: float, environment: Mapping[str, str]) -> None:
        """Starts the workers, and makes them ranks. Blocks up to limit_s.

        Raises TimeoutError if Ray finds no room, or a worker does not start.
        """
        deadline = time.monotonic() + limit_s
        self._environment = dict(environment)
        try:
            self._place(layout, limit_s)
            self._find(layout, limit_s, max(0.1, deadline - time.monotonic()))
            self._enter(max(0.1, deadline - time.monotonic()))
        except BaseException:
            self.stop()
            raise

    def _place(self, layout: Layout, limit_s: float) -> None:
        group = get_current_placement_group() if layout.use_current else None
        bundles = layout.bundles()
        if group is None:
            strategy = "STRICT_SPREAD" if layout.hosts else "PACK"
            group = self._own_group = placement_group(bundles, strategy=strategy)
            if not ray.wait([group.ready()], timeout=limit_s)[0]:
                raise _failures.no_room(bundles, limit_s, current=False)
        kind = ray.remote(Worker)
        for index in range(layout.workers):
            bundle = index * len(bundles) // layout.workers if self._own_group else -1
            options = kind.options(
                num_cpus=layout.each.cpus,
                num_gpus=layout.each.gpus,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle),
            )
            self.workers.append(options.remote())

    def _find(self, layout: Layout, limit_s: float, left_s: float) -> None:
        """Waits for the workers, and orders them so that ranks of one node follow each other."""
        refs = [worker.place.remote() for worker in self.workers]
        ready, pending = ray.wait(refs, num_returns=len(refs), timeout=left_s)
        if pending and not self._own_group:
            raise _failures.no_room(layout.bundles(), limit_s, current=True)
        if pending:
            raise TimeoutError(
                f"{len(pending)} of {len(refs)} workers did not start within {limit_s:g} s"
            )
        try:
            places = ray.get(ready)
        except ray.exceptions.RayError as error:
            raise _failures.unavailable(error, "while it started") from error
        order = by_node(places)
        self.workers = [self.workers[index] for index in order]
        self.places = [places[index] for index in order]

    def _enter(self, left_s: float) -> None:
        """Tells the workers their ranks, and the secret of a new job."""
        first = self.workers[0].free_ports.remote(self.places[0].address)
        ports = self.results([first], left_s)[0]
        shared = job_environment(self.places, f"ray-{uuid.uuid4().hex}", *ports)
        secret = secrets.token_hex(32)
        refs = [
            worker.enter.remote({**shared, **own, **self._environment}, secret)
            for worker, own in zip(self.workers, rank_environments(self.places))
        ]
        self.results(refs, left_s)
        self._failed, self._unknown = False, []

    def renew_failed(self, limit_s: float) -> None:
        """Begins a new job on the same workers if a function of this one has failed.

        Waits up to limit_s for workers that are in an earlier call. Raises TimeoutError with the
        ranks that still are, RankFailure for a worker that has died.
        """
        if (
            self._unknown
            and not ray.wait(self._unknown, num_returns=len(self._unknown), timeout=0)[1]
        ):
            asked = [worker.has_failed.remote() for worker in self.workers]
            self._failed = self._failed or any(self.results(asked))
            self._unknown = []
        if not self._failed:
            return
        try:
            self.results([worker.has_failed.remote() for worker in self.workers], limit_s)
            self._enter(limit_s)
        except TimeoutError as error:
            raise TimeoutError(
                f"a function has failed, and others are still in it: {error}; call shutdown() and "
                "start()"
            ) from None

    def follow(self, refs: list[Any]) -> list[Any]:
        """Remembers calls of functions until they have ended; returns them."""
        self._unknown += refs
        return refs

    def results_of_function(self, refs: list[Any]) -> Any:
        """As results(); a function that fails ends the job."""
        try:
            results = self.results(refs)
        except BaseException:
            self._failed = True
            raise
        self._unknown = [ref for ref in self._unknown if ref not in refs]
        return results

    def results(self, refs: list[Any], limit_s: float | None = None) -> Any:
        """The results of calls of the first ranks; raises what made the job fail.

        Raises TimeoutError after limit_s seconds.
        """
        return _failures.results_of(refs, self.places, limit_s)

    def stop(self) -> None:
        """Kills the workers and gives their room back. Calling it again is a no-op."""
        for worker in self.workers:
            ray.kill(worker)
        self.workers, self.places = [], []
        self._failed, self._unknown = False, []
        group, self._own_group = self._own_group, None
        if group is not None:
            remove_placement_group(group)
