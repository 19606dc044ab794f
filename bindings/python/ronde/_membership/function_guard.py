"""Calls functions in a process that outlives them, and ends the job with one that fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ronde._errors import AbortedError
from ronde._job import exit_message
from ronde._membership import joining


class FunctionGuard:
    """Runs functions of one job, one after the other.

    A function that raises leaves operations that other ranks wait for, or its own, in flight. The
    next function's must not meet them. So it ends the job here, and the other ranks' operations
    fail. Each later call fails until renew().
    """

    def __init__(self) -> None:
        self.failure = ""  # the exception of this job's function

    def renew(self) -> None:
        """Leaves the job, if this process is in one. Functions may join a new one."""
        joining.leave(keep=False)
        self.failure = ""

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls function(). Raises what it raises, and AbortedError after a failed one."""
        if self.failure:
            raise AbortedError(
                f"an earlier function has failed on this rank and ended the job: {self.failure}"
            )
        try:
            return function()
        except BaseException as error:
            self.failure = exit_message.described(error)
            with suppress(Exception):
                joining.leave(keep=False, why=self.failure)
            raise
