"""Two committed copies of an elastic job's state.

A new copy is written over the older one, so that the newest stays whole until the new one is done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ronde._errors import Error, InternalError
from ronde._membership import epochs
from ronde._snapshots.array_kinds import clone
from ronde._snapshots.copy_memory import Filling, Layout, PrivateMemory, pack, unpack
from ronde._snapshots.nested import Keep

_TEXT_STEP = 4096  # bytes


class Part(NamedTuple):
    """One part of a state.

    take(keep): a copy of the live value, in which keep(array) replaces each array.
    put(copy): gives the live value the copy's; the copy stays as it is.
    own: it belongs to this rank alone, and differs from those of others.
    """

    name: str
    take: Callable[[Keep], Any]
    put: Callable[[Any], None]
    own: bool = False


class Copies:
    """The two newest copies of a state of parts."""

    def __init__(self, parts: list[Part]) -> None:
        """Holds no copy yet."""
        self.parts = parts
        self._memory: Any = PrivateMemory()
        self._shared = False
        self._adopted = False
        self._worker = 0  # this process's
        self.adopted_worker = 0  # that took them
        self._layout = Layout([], [])
        self._text_bytes = 0
        self._targets: dict[int, list[Any]] = {}  # by the address of their memory
        self._newest: dict[str, Any] = {}
        self._older: dict[str, Any] = {}
        self._next: dict[str, Any] = {}
        self._count = self._step = 0

    def fill(self) -> None:
        """Writes the next copy in place of the older one. It counts after turn()."""
        self._older, self._count = {}, min(self._count, 1)
        for _ in range(8):
            if self._fill_once():
                return
        raise InternalError("the state's arrays change while they are copied")

    def _fill_once(self) -> bool:
        """False if the memory has not the size that is needed; it has in the next attempt."""
        arrays, text = self._begin()
        targets = self._targets_in(arrays)
        filling = Filling(self._layout, targets)
        values = {part.name: part.take(filling.keep) for part in self.parts}
        if not filling.fits():
            self._layout = filling.layout()
            self._targets.clear()
            return False
        packed = self._packed(targets, values) if self._shared else b""
        if packed is None:
            return False
        if len(packed) > self._text_bytes:
            self._text_bytes = (len(packed) * 5 // 4 // _TEXT_STEP + 1) * _TEXT_STEP
            return False
        filling.copy()
        text[: len(packed)] = packed
        self._next = values
        return True

    def _begin(self) -> list[memoryview]:
        sizes = [self._layout.size_bytes, self._text_bytes]
        try:
            views: list[memoryview] = self._memory.begin(sizes)
        except Error as error:
            if not self._shared:
                raise
            self._give_up_sharing(str(error))
            views = self._memory.begin(sizes)
        return views

    def _give_up_sharing(self, why: str) -> None:
        print(f"ronde: {why}: copies of the state end with this process", file=sys.stderr)
        self.keep_private()

    def _targets_in(self, memory: memoryview) -> list[Any]:
        address = np.ndarray(len(memory), np.uint8, memory).__array_interface__["data"][0]
        found = self._targets.get(address)
        if found is None:
            while len(self._targets) > 1:  # memory that was replaced
                self._targets.pop(next(iter(self._targets)))
            found = self._targets[address] = self._layout.arrays_in(memory)
        return found

    def _packed(self, targets: list[Any], values: Any) -> memoryview | None:
        try:
            return pack(self._layout, targets, (self._worker, values))
        except Exception as error:  # the kinds of errors depend on the objects
            why = f"the state cannot be pickled ({type(error).__name__}: {error})"
            self._give_up_sharing(why)
            return None

    def turn(self, step: int | None = None) -> None:
        """Makes what fill() wrote the newest copy, of this step; by default one more."""
        self._step = self._step + 1 if step is None else step
        self._memory.commit(self._step)
        self._newest, self._older, self._next = self._next, self._newest, {}
        self._count = min(self._count + 1, 2)

    def save(self, step: int | None = None) -> None:
        """Both."""
        self.fill()
        self.turn(step)

    def newest(self, name: str) -> Any:
        """A part of the newest copy. Its arrays are views of memory that is used again."""
        return self._newest[name]

    def newest_own(self) -> dict[str, Any]:
        """The parts of the newest copy that belong to this rank alone, by name."""
        return {part.name: self._newest[part.name] for part in self.parts if part.own}

    def put_own(self, values: dict[str, Any]) -> None:
        """Gives the live value these parts, where the state has them."""
        self._put(values, [part for part in self.parts if part.own and part.name in values])

    def restore(self, part: Part | None = None) -> None:
        """Gives the live value the newest copy's; of one part or all."""
        if self._count > 0:
            self._put(self._newest, [part] if part else self.parts)

    @staticmethod
    def _put(values: dict[str, Any], parts: list[Part]) -> None:
        for part in parts:
            part.put(values[part.name])

    def restore_older(self, step: int) -> None:
        """The same with the older copy, of this step, which becomes the newest."""
        if self._count == 2:
            self._newest, self._older = self._older, self._newest
            self._count, self._step = 1, step
            self._drop_later(step)
        self.restore()

    def _drop_later(self, step: int) -> None:
        if step in self._memory.steps():
            self._memory.read(step)
        else:  # it is in other memory, which was used before
            self._memory.clear()

    def replace(self, part: Part) -> None:
        """Forgets the copies of one part, and makes one of its value as it is."""
        value = part.take(clone)
        self._newest = {**self._newest, part.name: value}
        self._older = {**self._older, part.name: value}

    # Memory that outlives this process.

    def share(self) -> None:
        """From now on copies are kept by the host's agent, for the worker that replaces this one.

        Adopts those of a worker that has died.
        """
        global _sharing
        if self._shared:
            return
        if _sharing is not None:
            _sharing.keep_private()
        _sharing = self
        member = epochs.worker()
        self._worker = member.worker
        self._memory = member.take_copies()
        member.share(self._memory)
        self._shared, self._adopted = True, bool(self._memory.steps()) and self._are_ours()
        if not self._adopted:
            self._memory.clear()

    def _are_ours(self) -> bool:
        """True if the adopted copies have the parts of this state."""
        names = [part.name for part in self.parts]
        try:
            self.adopted_worker, values = self._read(self._memory.steps()[0])
            return list(values) == names
        except Exception as error:  # what pickle raises depends on the objects
            print(f"ronde: copies of a worker that died cannot be read: {error}", file=sys.stderr)
            return False

    def keep_private(self) -> None:
        """From now on copies end with this process."""
        if self._shared:
            self._memory.clear()
            self._memory, self._shared, self._adopted = PrivateMemory(), False, False

    def adopted_steps(self) -> tuple[int, int]:
        """(newest, older) step of the copies of a worker that has died; -1: none."""
        steps = self._memory.steps() if self._adopted else []
        newest, older = [*steps, -1, -1][:2]
        return newest, older

    def put_adopted(self, step: int, own_alone: bool) -> None:
        """Gives the live value that of an adopted copy; only this rank's own parts, or all."""
        _, values = self._read(step)
        self._put(values, [part for part in self.parts if part.own or not own_alone])
        self._step = step

    def _read(self, step: int) -> tuple[int, dict[str, Any]]:
        """(the worker that took the copy, the values of its parts)."""
        arrays, text = self._memory.read(step, writable=True)
        worker, values = unpack(arrays, text)
        return int(worker), values

    def end_adoption(self, used: bool) -> None:
        """The adopted copies are not needed any more; if they were not used, their steps go."""
        if self._adopted and not used:
            self._memory.clear()
        self._adopted = False
        epochs.worker().end_adoption()


_sharing: Copies | None = None  # one state has shared copies
