"""Typed exceptions: one base, one class per kind of failure.

Every error that Ronde raises derives from `Error`. All ranks that take part in an operation that
fails raise the same one.
"""

from __future__ import annotations

import builtins

__all__ = [
    "AbortedError",
    "ArgumentTypeError",
    "CorruptedError",
    "DuplicateNameError",
    "Error",
    "InternalError",
    "InterruptedError",
    "InvalidArgumentError",
    "MismatchError",
    "NonFiniteError",
    "NotInitializedError",
    "RankFailure",
    "ResourceExhaustedError",
    "StalledError",
    "TimeoutError",
    "UnavailableError",
    "UnsupportedError",
    "VersionMismatchError",
]


class Error(RuntimeError):
    """Base of all exceptions of Ronde. `origin`: the place in Ronde's source ("file:line")."""

    origin: str = ""


class InvalidArgumentError(Error, ValueError):
    """A value the caller passed, or a setting, is not allowed."""


class MismatchError(Error):
    """Ranks disagree about one operation; the text has both sides. The job stays usable."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """A value the caller passed has a type that is not allowed."""


class DuplicateNameError(Error, ValueError):
    """A name was submitted again while its first submission was in flight."""


class RankFailure(Error):
    """A rank died, lost its connection, or left while others needed it.

    `rank` is -1, `host` empty and `pid` 0 if unknown.
    """

    rank: int = -1
    host: str = ""
    pid: int = 0


class StalledError(Error):
    """Some ranks did not submit the operation within the time limit."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed. `rank` is one that was waited for; -1 if unknown."""

    rank: int = -1


class AbortedError(Error):
    """The wait ended because the group is broken or shutting down."""


class InterruptedError(Error):
    """A signal asked the waiting caller to return."""


class NotInitializedError(Error, ValueError):
    """Called before init() or after shutdown()."""


class UnsupportedError(Error, NotImplementedError):
    """No data plane here can do this."""


class ResourceExhaustedError(Error):
    """Memory, descriptors or space ran out."""


class VersionMismatchError(Error):
    """A peer runs another version of Ronde."""


class UnavailableError(Error):
    """A peer, library or device could not be reached."""


class InternalError(Error):
    """A bug in Ronde."""


class NonFiniteError(Error):
    """NaN or Inf was reduced, and RONDE_CHECK_NONFINITE is "fail". The job stays usable."""


class CorruptedError(Error):
    """Data changed on its way between two ranks (RONDE_CHECKSUMS). The job is broken."""


# They print and are pickled by their public names: "ronde.MismatchError".
for _name in __all__:
    globals()[_name].__module__ = "ronde"

# By the core's error code, in the order of the classes above; 0 means success.
CODES: tuple[type[Error], ...] = (Error, *Error.__subclasses__())


def code_of(error: Error) -> int:
    """The core's code of an error."""
    return next(CODES.index(kind) for kind in type(error).__mro__ if kind in CODES)


def make(code: int, message: str, origin: str, rank: int, host: str, pid: int) -> Error:
    """Makes the exception for an error of the core. Called by the extension module."""
    error = CODES[code](message)
    error.origin = origin
    if isinstance(error, RankFailure):
        error.rank, error.host, error.pid = rank, host, pid
    elif isinstance(error, TimeoutError):
        error.rank = rank
    return error
