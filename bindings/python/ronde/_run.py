"""run(): calls a function on new ranks and returns their results."""

from __future__ import annotations

import importlib.util
import os
import pickle
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
    **elastic: Any,
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
    effect. mpi_args and Horovod's names for elastic jobs are an error.

    Raises Error with the traceback of the first rank that failed. Raises InvalidArgumentError (a
    ValueError) for other hosts, and functions that cannot be pickled.
    """
    del use_gloo, disable_cache, ssh_port, ssh_identity_file
    _check_elastic(elastic)
    if mpi_args is not None:
        raise InvalidArgumentError(
            f"mpi_args={mpi_args!r}: ronde.run() chooses mpirun's arguments itself; its settings "
            "can be given as OMPI_MCA_* variables"
        )
    _check_hosts([*(hosts or "").split(","), *_hosts_in(hostfile)])
    ranks = num_proc if np is None else np
    if not isinstance(ranks, int) or ranks < 1:
        raise InvalidArgumentError(f"np={ranks!r}; allowed: whole numbers from 1")
    options = {
        "-np": ranks,
        "--start-timeout": start_timeout,
        "--output-dir": output_filename,
        "--network-interface": _only_one(network_interface, network_interfaces),
        "--backend": "mpi" if use_mpi else None,
    }
    chosen = [str(part) for pair in options.items() if pair[1] is not None for part in pair]
    chosen += ["--verbose"] if verbose else []
    given = os.environ if env is None else env
    with tempfile.TemporaryDirectory(prefix="ronde-run-") as folder:
        (Path(folder) / CALL).write_bytes(_packed(func, args, kwargs or {}))
        worker = [executable or sys.executable, "-m", "ronde._run_rank", folder]
        status = subprocess.run(
            [program(), "run", *chosen, "--", *worker],
            env=dict(given) if executable else {**given, "PYTHONPATH": _search_path()},
            check=False,
        ).returncode
        return _results(Path(folder), ranks, status)


_ELASTIC = (
    *("min_num_proc", "max_num_proc", "min_np", "max_np", "slots"),
    *("reset_limit", "cooldown_range", "host_discovery_script"),
)


def _check_elastic(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in _ELASTIC:
            raise TypeError(f"run() got an unexpected keyword argument {name!r}")
        if value is not None:
            raise InvalidArgumentError(
                f"{name}={value!r} is for elastic jobs, which there are not yet: give np alone"
            )


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
    for _, rank in written:
        good, value = outcomes[rank]
        if not good:
            raise Error(f"rank {rank} of {ranks} failed:\n{value}")
    if status != 0 or len(outcomes) < ranks:
        raise Error(f"the job of {ranks} ranks ended with exit status {status}")
    return [outcomes[rank][1] for rank in range(ranks)]
