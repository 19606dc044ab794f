"""States of elastic jobs, with Horovod's names.

A commit copies the state. Step k is committed when all ranks have finished their copies of it.
After a failure all ranks go on from the newest committed step, dealt anew to those that live.
"""

from __future__ import annotations

import pickle
import queue
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from ronde import _core
from ronde._calls.argument_checks import check, shown
from ronde._elastic import agreement
from ronde._elastic.changes import (
    Changes,
    HostUpdateResult,
    WorkerNotificationManager,
    notification_manager,
)
from ronde._elastic.checkpoint import Checkpoints, check_form
from ronde._elastic.own_state import OwnState, report_orphans
from ronde._elastic.training_loop import run_fn
from ronde._errors import ArgumentTypeError, InvalidArgumentError
from ronde._job.marks import mark_commit
from ronde._job.runtime import runtime
from ronde._membership import epochs
from ronde._snapshots.copies import Copies, Part
from ronde._snapshots.nested import Keep, copied, set_in_place
from ronde.common.exceptions import HostsUpdatedInterrupt

__all__ = [
    "HostUpdateResult",
    "ObjectState",
    "State",
    "WorkerNotificationManager",
    "notification_manager",
    "run_fn",
]


class State:
    """The values with which every rank goes on training. Derived classes save and restore them."""

    _checkpoints: Checkpoints | None = None
    _chosen: int | None = None  # the step to which all ranks have gone back; None: to none
    _own_state: OwnState | None = None
    _copies: Copies

    def __init__(self, bcast_object: Callable[..., Any], get_rank: Callable[[], int]) -> None:
        """bcast_object: gives all ranks the object of rank 0. get_rank: this rank."""
        self._progress = _core.Progress()
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.Queue[tuple[Any, int]] = Changes()
        self._last_updated_timestamp: Any = 0
        self._reset_callbacks: list[Callable[[], Any]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Calls these functions after each reset, when rank() and size() are the new ones.

        They run before sync(), on ranks that were there before: not on those that have joined.
        """
        check(callbacks=callbacks)
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called after each reset."""
        self._host_messages = Changes()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: Any, update_res: int) -> None:
        """Takes note of a change; the next commit() raises for it."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, then acts on changes of the job.

        When it returns on one rank, all ranks have finished their copies. Blocks until then.
        Raises HostsUpdatedInterrupt, on all ranks in the same call.
        """
        before = copy(self._progress)
        self.save()
        self._progress.copied_since(before)
        if self._own_state is not None:
            self._own_state.on_commit(self._progress.step, self._copies)
        changes = self._agree()
        self._progress.committed()
        mark_commit(self._progress.certain)
        if self._checkpoints is not None:
            self._checkpoints.on_commit(self)
        self._act_on(changes)

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt if workers wait to join or are to leave; on all ranks."""
        self._act_on(self._agree())

    def _agree(self) -> bool | None:
        """None: the job does not change. True: workers leave, and none joins. Collective."""
        before = newest = self._last_updated_timestamp
        found = HostUpdateResult.no_update
        while not self._host_messages.empty():
            stamp, change = self._host_messages.get()
            if stamp > newest:
                newest, found = stamp, found | change
        if epochs.available():
            self._last_updated_timestamp = newest
            facts = agreement.agree(newest > before, found)
            return facts.only_removed if facts.changed else None
        before, self._last_updated_timestamp, found = self._bcast_object((before, newest, found))
        changed = self._last_updated_timestamp > before
        return found == HostUpdateResult.removed if changed else None

    def _act_on(self, only_removed: bool | None) -> None:
        if only_removed is not None:
            raise HostsUpdatedInterrupt(only_removed)

    def checkpoint(
        self,
        path: Any,
        every: int = 1,
        keep: int = 2,
        format: str | None = None,
        none_whole: str = "warn",
    ) -> None:
        """From now on writes each `every`-th commit to a file, and starts from the newest one.

        path: the files' name without their last part, the number of the training's commits. They
        are written by rank 0 in the background, completely or not at all, and carry a checksum; the
        newest `keep` stay.
        format: "ronde" (one file), or for a TorchState "dcp", its default: a folder that
        torch.distributed.checkpoint.load() reads as well. Call it before training: then a job
        starts from the newest file that is whole, with any number of ranks. Others are set aside as
        NAME.damaged, with a warning. none_whole: "error" ends the job if there are files but none
        is whole; "warn" begins from scratch. Raises InvalidArgumentError (a ValueError) for other
        values, UnsupportedError for states that are not Ronde's.
        """
        self._checkpoints = Checkpoints(self, path, every, keep, format, none_whole)

    def save(self) -> None:
        """Copies the state to memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the newest copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives all ranks the state of the first one. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapts the state to new ranks, before the reset callbacks."""

    def _restore_older(self) -> None:
        """Goes back to the copy before the newest. States with one copy have only that."""
        self.restore()

    def _shared_copies(self) -> Copies | None:
        """Copies that another process can go on from; None if there are none."""
        return None

    def _share_copies(self) -> None:
        copies = self._shared_copies()
        if copies is not None:
            copies.share()

    def _alike_after_restore(self) -> bool:
        """True if ranks that have restored one step need no sync()."""
        return False

    def on_orphans(self, orphans: list[dict[str, Any]]) -> None:
        """Takes the own attributes of workers that are gone and that nobody replaces.

        orphans: by name, of each worker. Called at the start of an epoch, on one rank for each
        worker, if the state has redundancy=1. Without a method of yours it says what is lost.
        Residuals of compression are not among them: they are added to this rank's.
        """
        report_orphans(orphans)


class ObjectState(State):
    """A state of Python objects: each keyword argument is an attribute of that name.

    Copies hold containers and arrays by value, other objects by reference. restore() and sync() set
    containers and arrays in place.
    """

    _own: frozenset[str]  # names of attributes that belong to this rank alone

    def __init__(
        self,
        bcast_object: Callable[..., Any],
        get_rank: Callable[[], int],
        own: Iterable[str] = (),
        redundancy: int = 0,
        redundancy_every: int = 1,
        **kwargs: Any,
    ) -> None:
        """Objects that can be pickled.

        own: names of arguments that belong to this rank alone: sync() does not send them.
        redundancy: with 1 a partner on another host keeps a copy of them, and of the residuals of
        compression. redundancy_every: the partner gets a new copy after so many commits. Raises
        InvalidArgumentError (a ValueError) for names that are no arguments, and for other numbers.
        """
        self._set_own(own, kwargs)
        self._own_state = OwnState(self._own, redundancy, redundancy_every)
        self._names = tuple(name for name in kwargs if name not in self._own)
        self._own_names = tuple(name for name in kwargs if name in self._own)
        for name, value in kwargs.items():
            setattr(self, name, value)
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        parts = [*self._object_parts(), *self._further_parts(), self._own_state.part]
        self._copies = Copies(parts)
        self._copies.save(self._progress.step)

    def _set_own(self, own: Iterable[str], given: Iterable[str]) -> None:
        """Done once, by the class that knows all arguments."""
        if "_own" in self.__dict__:
            return
        if not isinstance(own, Iterable):
            raise ArgumentTypeError(f"own must be names of arguments, not {shown(own)}")
        names = (own,) if isinstance(own, str) else tuple(own)
        for name in names:
            if name not in given:
                raise InvalidArgumentError(
                    f"own={own!r}: {name!r} is no argument; allowed: {', '.join(given)}"
                )
        self._own = frozenset(names)

    def _object_parts(self) -> list[Part]:
        parts = [Part("objects", self._take_objects, self._put_objects)]
        if self._own_names:
            parts.append(Part("own objects", self._take_own_objects, self._put_objects, own=True))
        return parts

    def _further_parts(self) -> list[Part]:
        """The parts that a derived class adds."""
        return []

    def _objects(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def _take_objects(self, keep: Keep) -> dict[str, Any]:
        return {name: copied(value, keep) for name, value in self._objects().items()}

    def _take_own_objects(self, keep: Keep) -> dict[str, Any]:
        return {name: copied(getattr(self, name), keep) for name in self._own_names}

    def _put_objects(self, values: dict[str, Any]) -> None:
        live = {name: getattr(self, name, None) for name in values}
        for name, value in set_in_place(live, values).items():
            setattr(self, name, value)

    @property
    def _saved_state(self) -> dict[str, Any]:
        return dict(self._copies.newest("objects"))

    def save(self) -> None:
        """Copies the state; the copy before this one is kept."""
        self._copies.save(self._progress.next_step)
        self._progress.copied()

    def restore(self) -> None:
        """Goes back to the newest copy."""
        self._copies.restore()

    def _restore_older(self) -> None:
        self._copies.restore_older(self._progress.step)

    def sync(self) -> None:
        """Gives all ranks the state of the first one, and saves it. Collective."""
        newest = self._progress.step
        if epochs.available():  # ranks that called join() have committed less often
            newest = _core.newest_step(runtime(), newest)
        self._broadcast(self._progress.root)
        self._progress.synced(newest)
        self.save()

    def _shared_copies(self) -> Copies | None:
        ours = type(self).save.__module__.startswith("ronde.")  # else the user's class saves more
        return self._copies if ours else None

    def _alike_after_restore(self) -> bool:
        return type(self).sync.__module__.startswith("ronde.")  # else the user's class sends more

    def _snapshot(self) -> Any:
        """A copy of the newest copy, which stays as it is."""
        return [copied(self._copies.newest(part.name)) for part in self._common_parts()]

    def _common_parts(self) -> list[Part]:
        """The parts that are the same on all ranks."""
        return [part for part in self._copies.parts if not part.own]

    def _checkpoint_formats(self) -> list[str]:
        """The formats that checkpoint() takes, the default first."""
        return ["ronde"]

    def _pack(self, snapshot: Any) -> bytes | memoryview:
        """A snapshot as the bytes of a checkpoint."""
        return pickle.dumps(snapshot, protocol=5)

    def _unpack(self, data: bytes) -> None:
        """Gives the state the snapshot of a checkpoint."""
        self._put_snapshot(pickle.loads(data))

    def _put_snapshot(self, snapshot: Any) -> None:
        parts = self._common_parts()
        if len(snapshot) != len(parts):
            raise InvalidArgumentError(
                f"the checkpoint has {len(snapshot)} parts, but this state {len(parts)}: "
                "it was written by a state with other arguments"
            )
        for part, value in zip(parts, snapshot):
            check_form(part.name, value, self._copies.newest(part.name))
        for part, value in zip(parts, snapshot):
            part.put(value)

    def _broadcast(self, root: int) -> None:
        if self._names:
            further = {"root_rank": root} if root else {}
            self._put_objects(self._bcast_object(self._objects(), **further))
