"""RayExecutor: calls functions on the ranks of a job on Ray."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import ray

from ronde._errors import InvalidArgumentError, NotInitializedError, UnsupportedError
from ronde.ray._group import Layout, WorkerGroup
from ronde.ray._settings import Resources, Settings, check_count

Function = Callable[..., Any]


class RayExecutor:
    """Workers on a Ray cluster that are the ranks of one job. They keep their state between calls.

    Each function calls init() as a script would; the job ends with shutdown(). Threads: one.
    """

    @classmethod
    def create_settings(
        cls,
        timeout_s: float = 30,
        ssh_identity_file: str | None = None,
        ssh_str: str | None = None,
        placement_group_timeout_s: float = 100,
        nics: Collection[str] | None = None,
    ) -> Settings:
        """Makes the settings; see Settings. The arguments of ssh have no effect: Ronde needs none.

        Raises InvalidArgumentError with the name of the argument.
        """
        del ssh_identity_file, ssh_str
        return Settings(timeout_s, placement_group_timeout_s, nics)

    def __init__(
        self,
        settings: Settings | None = None,
        num_workers: int | None = None,
        num_hosts: int | None = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: float = 1,
        use_gpu: bool = False,
        gpus_per_worker: float | None = None,
        use_current_placement_group: bool = True,
        env_vars: Mapping[str, str] | None = None,
    ) -> None:
        """Checks the arguments; start() starts the workers.

        num_workers: workers on any nodes, close together where Ray can. num_hosts,
        num_workers_per_host: so many nodes, with so many workers each. cpus_per_worker: CPUs that
        Ray keeps for each. use_gpu, gpus_per_worker: GPUs likewise, one by default; each worker
        sees those of the job on its node; its own is number local_rank().
        use_current_placement_group: inside a placement group, such as that of a trial of Ray Tune,
        take the room from it.
        env_vars: environment of the workers.

        Raises InvalidArgumentError with the name of the argument.
        """
        self.settings = settings or Settings()
        each = Resources.of(cpus_per_worker, use_gpu, gpus_per_worker, "worker")
        workers, hosts = _counts(num_workers, num_hosts, num_workers_per_host)
        self._layout = Layout(workers, hosts, each, use_current_placement_group)
        self._environment = dict(env_vars or {})
        self._group = WorkerGroup()

    def start(
        self,
        executable_cls: Function | None = None,
        executable_args: Sequence[Any] | None = None,
        executable_kwargs: Mapping[str, Any] | None = None,
        extra_env_vars: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the workers, which then know their ranks. Blocks until all of them run.

        executable_cls: each worker makes one object of it, by these arguments; execute() hands it
        to functions. extra_env_vars: environment of the workers, over env_vars.

        Raises TimeoutError if Ray finds no room within placement_group_timeout_s, RankFailure with
        rank and node if a worker dies. Raises what executable_cls raises.
        """
        if self._group.workers:
            raise InvalidArgumentError("start() was called again before shutdown()")
        if not ray.is_initialized():
            ray.init()
        given = {**self._environment, **(extra_env_vars or {})}
        environment = {name: str(value) for name, value in given.items()}
        limit_s = self.settings.placement_group_timeout_s
        self._group.start(self._layout, limit_s, {**self.settings.environment(), **environment})
        if executable_cls is None:
            return
        arguments = (executable_cls, executable_args or [], executable_kwargs or {})
        self._group.results([each.start_executable.remote(*arguments) for each in self._running()])

    def run(
        self,
        fn: Function,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        callbacks: Any = None,
    ) -> list[Any]:
        """Calls fn(*args, **kwargs) on each worker; returns the results by rank. Blocks.

        An exception of a worker is raised here, with rank and node in its notes; that of the rank
        that failed first. It ends the job: operations of the other ranks fail, and the next call
        begins a new job on the same workers, whose functions must call init().

        Raises RankFailure with rank and node if a worker or its node dies: the others then fail in
        their next operation, and shutdown() ends them.
        """
        refuse_callbacks(callbacks)
        return list(self._group.results_of_function(self.run_remote(fn, args, kwargs)))

    def run_remote(
        self,
        fn: Function,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """As run(), but returns Ray's references of the results at once. ray.get() raises Ray's
        own errors.
        """
        shared = ray.put(fn)
        arguments = (args or [], kwargs or {})
        workers = self._ready()
        return self._group.follow([one.call.remote(shared, *arguments) for one in workers])

    def execute(self, fn: Function, callbacks: Any = None) -> list[Any]:
        """Calls fn(executable) on each worker; returns the results by rank. Errors: as run()."""
        refuse_callbacks(callbacks)
        shared = ray.put(fn)
        refs = self._group.follow([one.execute.remote(shared) for one in self._ready()])
        return list(self._group.results_of_function(refs))

    def execute_single(self, fn: Function) -> Any:
        """Calls fn(executable) on rank 0; returns its result. Errors: as run()."""
        refs = self._group.follow([self._ready()[0].execute.remote(fn)])
        return self._group.results_of_function(refs)[0]

    def shutdown(self) -> None:
        """Ends the workers and gives their room back. Calling it again is a no-op."""
        self._group.stop()

    def _ready(self) -> list[Any]:
        """The workers, in a job in which no function has failed."""
        self._running()
        self._group.renew_failed(self.settings.timeout_s)
        return self._group.workers

    def _running(self) -> list[Any]:
        if not self._group.workers:
            raise NotInitializedError("the executor has no workers: call start() before")
        return self._group.workers


def _counts(workers: int | None, hosts: int | None, per_host: int) -> tuple[int, int]:
    """(workers, hosts); no hosts where Ray chooses them."""
    if (workers is None) == (hosts is None):
        raise InvalidArgumentError(
            f"num_workers={workers!r}, num_hosts={hosts!r}: give one of them"
        )
    if workers is not None:
        check_count("num_workers", workers)
        return workers, 0
    check_count("num_hosts", hosts)
    check_count("num_workers_per_host", per_host)
    assert hosts is not None
    return hosts * per_host, hosts


def refuse_callbacks(callbacks: Any) -> None:
    """Raises UnsupportedError for any."""
    if callbacks:
        raise UnsupportedError(
            "callbacks: workers send none; return values from the function, or use ray.train.report"
        )
