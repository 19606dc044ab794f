"""Turns TensorFlow's statuses back into Ronde's exceptions, also from graphs and model.fit().

Such an exception has both classes: `except ronde.RankFailure` and
`except tf.errors.UnavailableError` both catch it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ronde._errors import CODES, Error, make
from ronde._tensorflow.interrupt import interruptible

_MARK = re.compile(r"\[ronde\.error (\d+) (-?\d+) (\d+) (\S+) (\d+)\] ")


_made: dict[tuple[type, type], Any] = {}


def _both(ours: type[Error], theirs: type[Exception]) -> Any:
    """A class derived from both, with the name of Ronde's."""
    if (ours, theirs) not in _made:
        body = {"__module__": ours.__module__, "__str__": _text}
        _made[ours, theirs] = type(ours.__name__, (ours, theirs), body)
    return _made[ours, theirs]


def _text(self: Any) -> str:
    return str(self.ronde_text)


def _described(error: Exception) -> tuple[int, str, int, str, int] | None:
    """(code, text, rank, host, pid) of Ronde's error in `error`, if it reports one."""
    message = str(getattr(error, "message", ""))
    found = _MARK.search(message)
    if found is None:
        return None
    code, rank, pid, length = (int(found[i]) for i in (1, 2, 3, 5))
    text = message[found.end() :].encode()[:length].decode(errors="replace")
    return code, text, rank, "" if found[4] == "-" else found[4], pid


def mark(error: Error) -> Error:
    """The same error, with a text that contains all its values as the kernels' texts do."""
    code, text = CODES.index(type(error)), str(error)
    rank, host, pid = (getattr(error, name, None) for name in ("rank", "host", "pid"))
    place = f"{-1 if rank is None else rank} {pid or 0} {host or '-'} {len(text.encode())}"
    return type(error)(f"[ronde.error {code} {place}] {text}")


def _meaning(ours: type[Error]) -> type[Exception]:
    """TensorFlow's class of the same meaning, which the kernels' statuses have."""
    errors = tf.errors
    classes: tuple[type[Exception], ...] = (
        errors.UnknownError,
        errors.InvalidArgumentError,
        errors.FailedPreconditionError,  # MismatchError
        errors.InvalidArgumentError,  # DuplicateNameError
        errors.UnavailableError,  # RankFailure
        errors.DeadlineExceededError,
        errors.DeadlineExceededError,
        errors.AbortedError,
        errors.AbortedError,
        errors.FailedPreconditionError,  # NotInitializedError
        errors.UnimplementedError,
        errors.ResourceExhaustedError,
        errors.FailedPreconditionError,  # VersionMismatchError
        errors.UnavailableError,
        errors.InternalError,
        errors.InvalidArgumentError,  # NonFiniteError, as of tf.debugging.check_numerics()
        errors.DataLossError,  # CorruptedError
    )
    return classes[CODES.index(ours)]


def both_kinds(ours: Error, reported: Any = None) -> Exception:
    """The same error, which also has TensorFlow's class. `reported`: TensorFlow's exception."""
    theirs = _meaning(type(ours))
    text = str(ours)
    origin = theirs(None, None, text) if reported is None else reported
    both = _both(type(ours), theirs)
    made = both.__new__(both)
    made.__dict__.update({**origin.__dict__, **ours.__dict__, "ronde_text": text})
    made.args = origin.args
    return made  # type: ignore[no-any-return]


def convert(error: Exception) -> Exception:
    """Ronde's exception for an OpError that one of its operations caused; otherwise itself."""
    described = None if isinstance(error, Error) else _described(error)
    if described is None:
        return error
    code, text, rank, host, pid = described
    return both_kinds(make(code, text, "", rank, host, pid), error)


@functools.cache
def install() -> None:
    """Makes TensorFlow raise the result of convert(), for operations and functions. Installs once.

    If TensorFlow's internals have changed, it raises its own exceptions, with the same text.
    """
    setattr(Error, "ag_pass_through", True)  # noqa: B010  AutoGraph then leaves it as it is
    try:
        from tensorflow.python.eager import core, execute
    except ImportError:
        return
    if hasattr(core, "_status_to_exception"):
        core._status_to_exception = _converting_result(core._status_to_exception)
    for name in ("quick_execute", "execute", "execute_with_cancellation"):
        if hasattr(execute, name):
            waiting = _converting_error(getattr(execute, name))
            setattr(execute, name, interruptible(waiting))


def _converting_result(function: Callable[[Any], Exception]) -> Callable[[Any], Exception]:
    @functools.wraps(function)
    def converting(status: Any) -> Exception:
        return convert(function(status))

    return converting


def _converting_error(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def converting(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except tf.errors.OpError as error:
            converted = convert(error)
            if converted is error:
                raise
            raise converted from None

    return converting
