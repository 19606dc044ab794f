"""The loop that trains through failures and changes of an elastic job's workers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ronde._calls.argument_checks import check, check_has
from ronde._core import LeaveSignal, Progress, Recovery
from ronde._elastic import agreement
from ronde._elastic.changes import notification_manager
from ronde._elastic.checkpoint import Checkpoints
from ronde._errors import Error
from ronde._job.marks import mark_span
from ronde._job.runtime import is_initialized, size
from ronde._membership import epochs
from ronde.common.exceptions import HostsUpdatedInterrupt

F = TypeVar("F", bound=Callable[..., Any])


def run_fn(func: F, reset: Callable[[], Any]) -> F:
    """A function that calls func(state, ...) until it returns, through changes and failures.

    reset: ends the epoch and joins the next one.
    """
    check(func=func)

    @functools.wraps(func)
    def wrapper(state: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = "a state, such as ronde.elastic.ObjectState"
        check_has("sync", "the first argument", state, wanted)
        leaves: Any = LeaveSignal()
        notification_manager.init()
        notification_manager.register_listener(state)
        try:
            return _Run(state, reset).call(lambda: func(state, *args, **kwargs))
        except epochs.LauncherLostError:
            _checkpoint_now(state)
            raise
        finally:
            del leaves  # the handler of before is back
            notification_manager.remove_listener(state)
            _wait_for_checkpoint(state)

    return cast(F, wrapper)


def _checkpoint_now(state: Any) -> None:
    checkpoints = getattr(state, "_checkpoints", None)
    if isinstance(checkpoints, Checkpoints):
        checkpoints.write_committed(state)


def _wait_for_checkpoint(state: Any) -> None:
    checkpoints = getattr(state, "_checkpoints", None)
    if isinstance(checkpoints, Checkpoints):
        checkpoints.wait()


class _Run:
    """One call of a function under run_fn()."""

    def __init__(self, state: Any, reset: Callable[[], Any]) -> None:
        self._state, self._reset = state, reset
        self._failed = False  # the state goes back to a copy
        self._skip_sync = False
        self._result: Any = None
        self._returned = False

    def call(self, train: Callable[[], Any]) -> Any:
        again = False
        while True:
            try:
                if again:
                    self._reset()
                return self._one_epoch(train, again)
            except HostsUpdatedInterrupt as interrupt:
                self._failed, self._skip_sync = False, interrupt.skip_sync
            except Error as error:
                if not _may_go_on(error):
                    raise
                epochs.note_failure(error)
                self._restore()
                self._failed, self._skip_sync = True, False
            except epochs.DismissedError:
                if not self._returned:
                    raise
                return self._result
            again = True

    def _restore(self) -> None:
        """After a failure. Where choose() may want the older copy, it alone restores."""
        progress = getattr(self._state, "_progress", None)
        if not (isinstance(progress, Progress) and progress.is_undecided):
            self._state.restore()

    def _one_epoch(self, train: Callable[[], Any], again: bool) -> Any:
        elastic = epochs.available()
        sync = not self._skip_sync
        if elastic:
            _share(self._state)
        held = elastic and epochs.worker().state_is_held()
        if held:  # before the reset callbacks, whose changes must last
            sync = agreement.choose(self._state, self._failed, self._skip_sync)
        if again:
            self._state.on_reset()
        if elastic and not held:
            sync = agreement.choose(self._state, self._failed, self._skip_sync)
        if not elastic:
            if sync:
                self._sync_alone(again)
            return train()
        with mark_span("sync state"):
            agreement.begin(self._state, sync)
        self._returned = False
        self._result = train()
        self._returned = True
        self._finish()
        return self._result

    def _sync_alone(self, again: bool) -> None:
        """Without a launcher of elastic jobs: the state of rank 0, or the newest checkpoint's."""
        if not again and is_initialized() and hasattr(self._state, "_checkpoints"):
            agreement.resume(self._state)
        self._state.sync()
        if hasattr(self._state, "_progress"):
            self._state._progress.root = 0

    def _finish(self) -> None:
        """Returns once all ranks have returned: until then they may need this one."""
        while (facts := agreement.agree(False, 0, running=False)).running:
            if facts.changed:
                raise HostsUpdatedInterrupt(facts.only_removed)
        epochs.worker().finish()


def _share(state: Any) -> None:
    """Lets copies of Ronde's states outlive this process."""
    share = getattr(type(state), "_share_copies", None)
    if share is not None:
        share(state)


def _may_go_on(error: Error) -> bool:
    """True if an epoch can follow. Without a launcher only a job of one process goes on."""
    if epochs.recovery_of(error) == Recovery.NONE:
        return False
    return epochs.available() or not is_initialized() or size() == 1
