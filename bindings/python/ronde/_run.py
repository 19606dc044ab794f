"""run(): calls a function on new ranks and returns their results."""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ronde._command import program
from ronde._errors import Error, InvalidArgumentError

__all__ = ["run"]

importing = False  # this process is a rank of run() and imports its function
CALL = "call.pickle"  # the call; each rank writes <rank>.pickle beside it


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    *,
    np: int | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    start_timeout: float | None = None,
    output_filename: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | Sequence[str] | None = None,
    executable: str | None = None,
    env: Mapping[str, str] | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    verbose: bool | int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    elastic_timeout: float | None = None,
    cooldown_range: Sequence[int] | None = None,
    host_discovery_script: str | None = None,
    on_failure: str | None = None,
) -> list[Any]:
    """Calls func(*args, **kwargs) on `np` new ranks on this host; returns their results by rank.

    Each rank is a new process, in which the function calls init() as a script would. Function,
    arguments and results are pickled, by cloudpickle where it is installed: then functions of the
    main script and lambdas work too. They go from this process to its own children and back,
    through files in a directory that only this user can open; never over a network.

    np, num_proc: number of ranks. hosts, hostfile: "localhost:SLOTS", or a file that names this
    host; others are an error: use the command `ronde run -H` with a script there. start_timeout:
    seconds in which all ranks must start. output_filename: directory for each rank's output.
    network_interface, network_interfaces: the interface for connections. executable: the Python to
    use. env: the ranks' environment, in place of this process's. use_mpi: start the ranks through
    mpirun. use_gloo, disable_cache, ssh_port, ssh_identity_file: accepted for Horovod scripts, no
    effect. mpi_args is an error.

    min_np, max_np, host_discovery_script or on_failure make the job elastic: see ronde.elastic and
    the same options of `ronde run`. Results are then those of the last epoch's ranks.
    host_discovery_script: prints names of this host only. min_num_proc, max_num_proc: the same as
    min_np and max_np. slots: of a host whose line has no number. cooldown_range: two numbers of
    seconds after which a host is used again.

    Raises Error with the traceback of the first rank that failed. Raises InvalidArgumentError (a
    ValueError) for other hosts, and functions that cannot be pickled.
    """
    _refuse_import()
    del use_gloo, disable_cache, ssh_port, ssh_identity_file
    least, most = _one_of(min_np, min_num_proc, "min"), _one_of(max_np, max_num_proc, "max")
    making: dict[str, Any] = {"min_np": least, "max_np": most}
    making.update(host_discovery_script=host_discovery_script, on_failure=on_failure)
    tuning: dict[str, Any] = {"slots_per_host": slots, "reset_limit": reset_limit}
    tuning.update(elastic_timeout=elastic_timeout, blacklist_cooldown_range=cooldown_range)
    elastic = _elastic_options(making, tuning)
    _refuse_mpi_args(mpi_args)
    _check_hosts([*(hosts or "").split(","), *_hosts_in(hostfile)])
    ranks = _checked_ranks(num_proc if np is None else np)
    options = {
        "-np": ranks,
        "--start-timeout": start_timeout,
        "--output-dir": output_filename,
        "--network-interface": _only_one(network_interface, network_interfaces),
        "--backend": "mpi" if use_mpi else None,
        "-H": (hosts or None) if elastic else None,
    }
    chosen = [str(part) for pair in options.items() if pair[1] is not None for part in pair]
    chosen += [*elastic, *(["--verbose"] if verbose else [])]
    given = os.environ if env is None else env
    with tempfile.TemporaryDirectory(prefix="ronde-run-") as folder:
        (Path(folder) / CALL).write_bytes(_packed(func, args, kwargs or {}))
        status = _launch(chosen, folder, executable, given)
        return (_last_results if elastic else _results)(Path(folder), ranks, status)


def _refuse_import() -> None:
    """Raises InvalidArgumentError in a rank that imports the module of its function."""
    if importing:
        raise InvalidArgumentError(
            "ronde.run() was called while a rank imports the module of the function to run: put "
            'what that module does under if __name__ == "__main__":'
        )


def _launch(
    options: Sequence[str], folder: str, executable: str | None, env: Mapping[str, str]
) -> int:
    """Runs the ranks to their end; returns the launcher's exit status."""
    worker = [executable or sys.executable, "-m", "ronde._run_rank", folder]
    return subprocess.run(
        [program(), "run", *options, "--", *worker],
        env=dict(env) if executable else {**env, "PYTHONPATH": _search_path()},
        check=False,
    ).returncode


def _refuse_mpi_args(mpi_args: str | None) -> None:
    if mpi_args is not None:
        raise InvalidArgumentError(
            f"mpi_args={mpi_args!r}: ronde.run() chooses mpirun's arguments itself; its settings "
            "can be given as OMPI_MCA_* variables"
        )


def _checked_ranks(ranks: Any) -> int:
    if not isinstance(ranks, int) or ranks < 1:
        raise InvalidArgumentError(f"np={ranks!r}; allowed: whole numbers from 1")
    return ranks


def _one_of(value: int | None, same: int | None, which: str) -> int | None:
    """The number of ranks that either of two arguments gives."""
    if value is not None and same is not None and value != same:
        raise InvalidArgumentError(
            f"{which}_np={value} and {which}_num_proc={same} mean the same; give one of them"
        )
    return same if value is None else value


def _elastic_options(making: Mapping[str, Any], tuning: Mapping[str, Any]) -> list[str]:
    """Options of `ronde run`. Those of `making` make a job elastic; `tuning` needs one of them."""
    found: list[str] = []
    for name, value in {**making, **tuning}.items():
        if value is None:
            continue
        if name in tuning and not found:
            raise InvalidArgumentError(
                f"{name}={value!r} is for elastic jobs: give {', '.join(making)}, too"
            )
        values = value if isinstance(value, (list, tuple)) else [value]
        found += [f"--{name.replace('_', '-')}", *map(str, values)]
    return found


def _only_one(name: str | None, names: str | Sequence[str] | None) -> str | None:
    """The interface, given by either argument."""
    several = names.split(",") if isinstance(names, str) else list(names or ())
    chosen = dict.fromkeys([*([name] if name else []), *several])
    if len(chosen) > 1:
        raise InvalidArgumentError(
            f"network interfaces {', '.join(chosen)}: ranks use one; give only that"
        )
    return next(iter(chosen), None)


def _hosts_in(hostfile: str | None) -> list[str]:
    """The first word of each line."""
    if hostfile is None:
        return []
    try:
        lines = Path(hostfile).read_text().splitlines()
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the hostfile {hostfile}: {error}") from error
    return [line.split()[0] for line in lines if line.split("#")[0].strip()]


def _check_hosts(hosts: Sequence[str]) -> None:
    here = {"localhost", "127.0.0.1", socket.gethostname(), socket.getfqdn()}
    other = [h for h in hosts if h and h.split(":")[0] not in here]
    if other:
        raise InvalidArgumentError(
            f"ronde.run() starts ranks on this host only, not on {', '.join(other)}: functions do "
            "not travel over a network; write a script and start it with: ronde run -H HOSTS"
        )


def _search_path() -> str:
    """This process's module search path: the children must find the function's module too."""
    return os.pathsep.join(os.path.abspath(folder) for folder in sys.path)


def pickler() -> Any:
    """cloudpickle if it is installed, else pickle."""
    found = importlib.util.find_spec("cloudpickle") is not None
    return importlib.import_module("cloudpickle") if found else pickle


def _packed(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    chosen = pickler()
    if chosen is pickle and getattr(func, "__module__", None) == "__main__":
        raise InvalidArgumentError(
            f"{func} is defined in the main script, where new processes cannot find it; put it in "
            "a module of its own, or: pip install cloudpickle"
        )
    try:
        return bytes(chosen.dumps((func, tuple(args), dict(kwargs))))
    except Exception as error:
        raise InvalidArgumentError(
            f"cannot pickle the function or its arguments: {error}"
        ) from error


def _results(folder: Path, ranks: int, status: int) -> list[Any]:
    """The ranks' results, in order of rank; raises the error of the rank that failed first."""
    left = {rank: folder / f"{rank}.pickle" for rank in range(ranks)}
    written = sorted((p.stat().st_mtime_ns, rank) for rank, p in left.items() if p.exists())
    outcomes = {rank: pickle.loads(left[rank].read_bytes()) for _, rank in written}
    failed = [(rank, outcomes[rank][1]) for _, rank in written if not outcomes[rank][0]]
    for rank, trace in sorted(failed, key=lambda one: _is_consequence(one[1])):
        raise Error(f"rank {rank} of {ranks} failed:\n{trace}")
    if status != 0 or len(outcomes) < ranks:
        raise Error(f"the job of {ranks} ranks ended with exit status {status}")
    return [outcomes[rank][1] for rank in range(ranks)]


def _is_consequence(trace: str) -> bool:
    """The exception only tells that another rank has failed."""
    last = [line for line in trace.splitlines() if line[:1].strip()][-1:]
    return bool(last and re.match(r"ronde\.([\w.]+\.)?(RankFailure|AbortedError)\b", last[0]))


def _last_results(folder: Path, ranks: int, status: int) -> list[Any]:
    """The results of the last epoch's ranks; raises the first error if the job failed."""
    written = sorted(folder.glob("*.pickle"), key=lambda path: path.stat().st_mtime_ns)
    outcomes = [pickle.loads(path.read_bytes()) for path in written if path.name != CALL]
    if status != 0:
        for good, value, *_ in outcomes:
            if not good:
                raise Error(f"a worker of the elastic job failed:\n{value}")
        raise Error(f"the elastic job of {ranks} ranks ended with exit status {status}")
    good_ones = [(epoch, rank, value) for good, value, epoch, rank in outcomes if good]
    last = max((epoch for epoch, *_ in good_ones), default=0)
    by_rank = {rank: value for epoch, rank, value in good_ones if epoch == last}
    return [by_rank[rank] for rank in sorted(by_rank)]
