"""The function call of run(), and the ranks' answers, as bytes in a folder of the caller's host.

The launcher brings the call to the ranks and the answers back, through its own connections: pipes
on this host, ssh to others. Nothing here is read from a socket.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ronde._collectives.pickling import cloudpickle
from ronde._errors import Error, InvalidArgumentError, RankFailure, UnavailableError

CALL = "call.pickle"  # the call; RANK.pickle is a rank's answer
_FAILURE = "failure.json"  # why the launcher gave up
_USAGE_STATUS = 2  # of the launcher: it has started nothing
_PYTHON = "{}.{}".format(*sys.version_info)


def pickler() -> Any:
    """cloudpickle if it is installed, else pickle."""
    return cloudpickle() or pickle


def packed(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """The call: a line with this Python's version, then the pickle."""
    chosen = pickler()
    if chosen is pickle and getattr(func, "__module__", None) == "__main__":
        raise InvalidArgumentError(
            f"{func} is defined in the main script, where new processes cannot find it; put it in "
            "a module of its own, or: pip install cloudpickle"
        )
    try:
        body = bytes(chosen.dumps((func, tuple(args), dict(kwargs))))
    except Exception as error:
        raise InvalidArgumentError(
            f"cannot pickle the function or its arguments: {error}"
        ) from error
    return _PYTHON.encode() + b"\n" + body


def unpacked(call: bytes) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The function and its arguments. Raises Error where this Python cannot read them."""
    version, _, body = call.partition(b"\n")
    if version.decode() != _PYTHON:
        raise InvalidArgumentError(
            f"this rank runs Python {_PYTHON} ({sys.executable}), the caller Python "
            f"{version.decode()}: functions travel between the same versions only; "
            "executable= names another Python"
        )
    try:
        func, args, kwargs = pickle.loads(body)
    except ModuleNotFoundError as error:
        raise InvalidArgumentError(
            f"this rank does not find module {error.name}, which the function or its arguments "
            "need: install it on this host, or define the function in the main script"
        ) from error
    return func, args, kwargs


def results(folder: Path, ranks: int, status: int) -> list[Any]:
    """The ranks' results, in order of rank; raises the error of the rank that failed first."""
    left = {rank: folder / f"{rank}.pickle" for rank in range(ranks)}
    written = sorted((p.stat().st_mtime_ns, rank) for rank, p in left.items() if p.exists())
    answers = {rank: _answer(left[rank], f"rank {rank}") for _, rank in written}
    if status == 0:
        for rank in range(ranks):
            if rank not in answers:
                raise Error(f"rank {rank} of {ranks} ended with status 0 inside the function")
        return [answers[rank][1] for rank in range(ranks)]
    failure = _failure(folder, f"the job of {ranks} ranks", status)
    failed = [(rank, *answers[rank][1:]) for _, rank in written if not answers[rank][0]]
    for rank, trace, host in sorted(failed, key=lambda one: _is_consequence(one[1])):
        if isinstance(failure, RankFailure) and _is_consequence(trace):
            break
        raise Error(f"rank {rank} of {ranks}{_on(host)} failed:\n{trace}")
    raise failure


def last_results(folder: Path, ranks: int, status: int) -> list[Any]:
    """The results of the last epoch's ranks; raises the error that made the job fail."""
    written = sorted(folder.glob("*.pickle"), key=lambda path: path.stat().st_mtime_ns)
    answers = [_answer(path, f"worker {path.stem}") for path in written if path.name != CALL]
    if status != 0:
        failed = [(value, host) for good, value, host, *_ in answers if not good]
        for trace, host in sorted(failed, key=lambda one: _is_consequence(one[0])):
            raise Error(f"a worker of the elastic job{_on(host)} failed:\n{trace}")
        raise _failure(folder, f"the elastic job of {ranks} ranks", status)
    good_ones = [(epoch, rank, value) for good, value, _, epoch, rank in answers if good]
    last = max((epoch for epoch, *_ in good_ones), default=0)
    by_rank = {rank: value for epoch, rank, value in good_ones if epoch == last}
    return [by_rank[rank] for rank in sorted(by_rank)]


def _answer(path: Path, name: str) -> tuple[Any, ...]:
    """The answer of a rank or worker. Raises Error where this process cannot unpickle it."""
    try:
        answer: tuple[Any, ...] = pickle.loads(path.read_bytes())
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Error(f"cannot unpickle what {name} has returned: {reason}") from error
    return answer


def _on(host: str) -> str:
    return f" on {host}" if host else ""


def _is_consequence(trace: str) -> bool:
    """The exception only tells that another rank has failed."""
    last = [line for line in trace.splitlines() if line[:1].strip()][-1:]
    return bool(last and re.match(r"ronde\.([\w.]+\.)?(RankFailure|AbortedError)\b", last[0]))


def _failure(folder: Path, job: str, status: int) -> Error:
    """The error of a job in which no rank has told its own."""
    said = f"{job} ended with exit status {status}"
    path = folder / _FAILURE
    if not path.exists():
        return Error(said)
    failure = json.loads(path.read_text())
    text, rank = failure["text"], failure.get("rank")
    if rank is None:
        if status == _USAGE_STATUS:
            return InvalidArgumentError(text)
        return UnavailableError(f"{said}: {text}")
    host, pid = failure["host"], failure["pid"]
    error = RankFailure(f"{said}: rank {rank} (pid {pid}{_on(host)}) {text}")
    error.rank, error.host, error.pid = rank, host, pid
    return error
