"""run(): calls a function on new ranks and returns their results."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ronde._calls.argument_checks import check, shown
from ronde._command import program
from ronde._errors import InvalidArgumentError
from ronde._run import call as _call

__all__ = ["run"]

importing = False  # this process is a rank of run() and imports its function


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
    ssh_options: Sequence[str] = (),
    remote_ronde: str | None = None,
) -> list[Any]:
    """Calls func(*args, **kwargs) on `np` new ranks; returns their results by rank. Blocks.

    Each rank is a new process, in which the function calls init() as a script would. Function,
    arguments and results are pickled, by cloudpickle where it is installed: then functions of the
    main script and lambdas work too. They travel as `ronde run` talks to its ranks: through pipes
    on this host, through ssh to others. No file system need be shared.

    np, num_proc: number of ranks. hosts: "a:2,b:2". hostfile: a file that names one on each line.
    ssh_port, ssh_identity_file, ssh_options: of ssh, which must work without a password; the last
    as "Key=Value". remote_ronde, executable: paths of the `ronde` program on the other hosts, and
    of Python on all; by default as here. start_timeout: seconds in which all ranks must start.
    output_filename: directory for each rank's output. network_interface, network_interfaces: the
    interfaces for connections; data is spread over several. env: the environment, in place of this
    process's; other hosts get what `ronde run` forwards of it. use_mpi: start the ranks through
    mpirun, on this host only. mpi_args: more arguments for mpirun, as in a shell. use_gloo,
    disable_cache: accepted for Horovod scripts, no effect.

    min_np, max_np, host_discovery_script or on_failure make the job elastic: see ronde.elastic and
    the same options of `ronde run`. Results are then those of the last epoch's ranks.
    min_num_proc, max_num_proc: the same as min_np and max_np. slots: of a host whose line has no
    number. cooldown_range: two numbers of seconds after which a host is used again.

    Raises Error with the traceback of the first rank that failed, and its host. Raises RankFailure
    with rank, host and pid if a rank was killed; UnavailableError if a host cannot be reached;
    InvalidArgumentError (a ValueError) for what cannot be run, such as functions that cannot be
    pickled.
    """
    _refuse_import()
    check(func=func, args=args, kwargs=kwargs, hosts=hosts, hostfile=hostfile, env=env)
    check(executable=executable, ssh_port=ssh_port, ssh_options=ssh_options, mpi_args=mpi_args)
    del use_gloo, disable_cache
    making: dict[str, Any] = {"min_np": _one_of(min_np, min_num_proc, "min")}
    making["max_np"] = _one_of(max_np, max_num_proc, "max")
    making.update(host_discovery_script=host_discovery_script, on_failure=on_failure)
    tuning: dict[str, Any] = {"slots_per_host": slots, "reset_limit": reset_limit}
    tuning.update(elastic_timeout=elastic_timeout, blacklist_cooldown_range=cooldown_range)
    elastic = _elastic_options(making, tuning)
    ranks = _checked_ranks(num_proc if np is None else np)
    options: dict[str, Any] = {
        "-np": ranks,
        "--start-timeout": start_timeout,
        "--output-dir": output_filename,
        "--network-interface": _interfaces(network_interface, network_interfaces),
        **_host_options(hosts, hostfile, use_mpi, mpi_args),
        **_ssh_options(ssh_port, ssh_identity_file),
        "--ssh-option": list(ssh_options),
        "--remote-ronde": remote_ronde,
    }
    words = [*_words(options), *elastic, *(["--verbose"] if verbose else [])]
    call = _call.packed(func, args, kwargs or {})
    read = functools.partial(_call.last_results if elastic else _call.results, ranks=ranks)
    return _call_ranks(call, words, executable, env, bool(use_mpi), read)


def _call_ranks(
    call: bytes,
    words: Sequence[str],
    executable: str | None,
    env: Mapping[str, str] | None,
    by_mpi: bool,
    read: Callable[..., list[Any]],
) -> list[Any]:
    """Runs the ranks to their end; returns what `read` makes of the answers in their folder.

    words: options of `ronde run`. by_mpi: the ranks find the call in the folder; they are all here.
    """
    with tempfile.TemporaryDirectory(prefix="ronde-run-") as name:
        folder = Path(name)
        (folder / _call.CALL).write_bytes(call)
        worker = [executable or sys.executable, "-m", "ronde._run.rank"]
        given = os.environ if env is None else env
        if by_mpi:
            status = _launch([*words, "--", *worker, name], executable, given)
        else:
            status = _launch([*words, "--call-folder", name, "--", *worker], executable, given)
        return read(folder, status=status)


def _refuse_import() -> None:
    """Raises InvalidArgumentError in a rank that imports the module of its function."""
    if importing:
        raise InvalidArgumentError(
            "ronde.run() was called while a rank imports the module of the function to run: put "
            'what that module does under if __name__ == "__main__":'
        )


def _launch(arguments: Sequence[str], executable: str | None, env: Mapping[str, str]) -> int:
    """Runs the ranks to their end; returns the launcher's exit status."""
    return subprocess.run(
        [program(), "run", *arguments],
        env=dict(env) if executable else {**env, "PYTHONPATH": search_path()},
        check=False,
    ).returncode


def _words(options: Mapping[str, Any]) -> list[str]:
    """The options as arguments: each value of a list with its name, and None not at all."""
    words: list[str] = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            words += [] if one is None else [name, str(one)]
    return words


def _checked_ranks(ranks: Any) -> int:
    if not isinstance(ranks, int) or ranks < 1:
        raise InvalidArgumentError(f"np={shown(ranks)}; allowed: whole numbers from 1")
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


def _interfaces(name: str | None, names: str | Sequence[str] | None) -> str | None:
    """The interfaces, given by either argument, as "eth0,eth1"."""
    check(network_interface=name)
    several = names.split(",") if isinstance(names, str) else list(names or ())
    first = name.split(",") if name else []
    return ",".join(dict.fromkeys([*first, *several])) or None


def _hosts_in(hosts: str | None, hostfile: str | None) -> list[str]:
    """The entries of the list, or the first word of each line of the file."""
    if hostfile is None:
        return [entry for entry in (hosts or "").split(",") if entry]
    if hosts:
        raise InvalidArgumentError(f"hosts={hosts!r} and hostfile={hostfile!r}: give one of them")
    try:
        lines = Path(hostfile).read_text().splitlines()
    except OSError as error:
        raise InvalidArgumentError(f"cannot read the hostfile {hostfile}: {error}") from error
    return [line.split()[0] for line in lines if line.split("#")[0].strip()]


def _host_options(
    hosts: str | None, hostfile: str | None, use_mpi: bool | None, mpi_args: str | None
) -> dict[str, Any]:
    """Options of `ronde run`. mpirun brings no call to other hosts."""
    listed = _hosts_in(hosts, hostfile)
    if not use_mpi:
        if mpi_args is not None:
            raise InvalidArgumentError(f"mpi_args={mpi_args!r} is for mpirun: give use_mpi=True")
        return {"-H": hosts or None, "--hostfile": hostfile}
    here = {"localhost", "127.0.0.1", socket.gethostname(), socket.getfqdn()}
    other = [host for host in listed if host.split(":")[0] not in here]
    if other:
        raise InvalidArgumentError(
            f"use_mpi=True starts ranks on this host only, not on {', '.join(other)}: leave it "
            "out, or write a script and start it with: ronde run --backend mpi -H HOSTS"
        )
    return {"--backend": "mpi", "--mpi-args": mpi_args}


def _ssh_options(port: int | None, identity: str | None) -> dict[str, Any]:
    """Options of `ronde run`."""
    if port is not None and not 0 < port < 65536:
        raise InvalidArgumentError(f"ssh_port={port!r}; allowed: 1 to 65535")
    if identity is not None and not Path(identity).is_file():
        raise InvalidArgumentError(f"ssh_identity_file={identity!r}: there is no such file")
    return {"--ssh-port": port, "--ssh-identity-file": identity}


def search_path() -> str:
    """This process's module search path: the children must find the function's module too.

    Where the current folder has been deleted, it is left out: `ronde run` says so.
    """
    try:
        return os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    except FileNotFoundError:
        return os.pathsep.join(folder for folder in sys.path if os.path.isabs(folder))
