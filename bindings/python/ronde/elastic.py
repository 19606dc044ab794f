"""Elastic jobs for NumPy and any framework.

    state = ronde.elastic.ArrayState(weights=weights, step=0)

    @ronde.elastic.run
    def train(state):
        while state.step < 1000:
            state.weights -= 0.1 * ronde.allreduce(gradient(state.weights), name="gradient")
            state.step += 1
            state.commit()

    train(state)

Start it with `ronde run -np 4 --min-np 2 python script.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from ronde._collectives import on_arrays
from ronde._collectives.objects import broadcast_object
from ronde._errors import InvalidArgumentError
from ronde._job.runtime import rank
from ronde._membership.joining import init, shutdown
from ronde._samplers import ExactSampler
from ronde._snapshots.copies import Part
from ronde._snapshots.nested import Keep
from ronde.common import elastic as _common
from ronde.common.elastic import State, run_fn
from ronde.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = [
    "ArrayState",
    "ExactSampler",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "run",
]


F = TypeVar("F", bound=Callable[..., Any])


def _reset() -> None:
    shutdown()
    init()


def run(func: F) -> F:
    """Decorates func(state, ...): it goes on when ranks die, join and leave.

    When a rank has died, the others restore the newest committed step and join the launcher's next
    epoch. They call the reset callbacks, state.sync() and then func again. When ranks are to join
    or to leave, commit() raises HostsUpdatedInterrupt, and they do the same without restoring.
    Workers that have joined begin with sync(). Errors that would come again, such as MismatchError
    and InvalidArgumentError, are raised. Without a launcher of elastic jobs all failures are.

    Call collectives between init() and this function only if reset callbacks call the same ones:
    workers that have joined would wait for ranks that are in it already.
    """
    return run_fn(func, _reset)


class ObjectState(_common.ObjectState):
    """A state of Python objects: each keyword argument is an attribute of that name."""

    def __init__(self, own: Iterable[str] = (), **kwargs: Any) -> None:
        """Objects that can be pickled, and ExactSamplers.

        own: names of objects that belong to this rank alone: sync() does not send them.
        """
        self._set_own(own, kwargs)
        self._samplers = {n: v for n, v in kwargs.items() if isinstance(v, ExactSampler)}
        for name, sampler in self._samplers.items():
            setattr(self, name, sampler)
        others = {n: v for n, v in kwargs.items() if n not in self._samplers}
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **others)

    def reset(self) -> None:
        """Deals the samplers' remaining indices to the ranks that there are now."""
        for sampler in self._samplers.values():
            sampler.reset()

    def _further_parts(self) -> list[Part]:
        return [Part("samplers", self._take_samplers, self._put_samplers)]

    def _take_samplers(self, keep: Keep | None = None) -> Any:
        del keep
        return {name: sampler.state_dict() for name, sampler in self._samplers.items()}

    def _put_samplers(self, values: Any) -> None:
        for name, value in values.items():
            self._samplers[name].load_state_dict(value)

    def _broadcast(self, root: int) -> None:
        super()._broadcast(root)
        if self._samplers:
            self._put_samplers(broadcast_object(self._take_samplers(), root))


class ArrayState(ObjectState):
    """A state of NumPy arrays and Python objects.

    Keyword arguments that are arrays are copied and broadcast in place: keep writing to the same
    ones. Commits allocate nothing for them.
    """

    def __init__(self, own: Iterable[str] = (), **kwargs: Any) -> None:
        """Arrays in C order, objects that can be pickled, and ExactSamplers.

        own: names of arrays and objects that belong to this rank alone: sync() does not send them.
        """
        self._set_own(own, kwargs)
        self._arrays = {n: v for n, v in kwargs.items() if isinstance(v, np.ndarray)}
        for name, array in self._arrays.items():
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise InvalidArgumentError(
                    f"{name}: a writable array in C order is needed; np.ascontiguousarray() "
                    "makes one"
                )
        others = {n: v for n, v in kwargs.items() if n not in self._arrays}
        super().__init__(**others)

    def __getattr__(self, name: str) -> Any:
        """The registered array of this name."""
        arrays = self.__dict__.get("_arrays", {})
        if name in arrays:
            return arrays[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Writes values into a registered array; sets any other attribute."""
        array = self.__dict__.get("_arrays", {}).get(name)
        if array is None:
            super().__setattr__(name, value)
        elif value is not array:
            array[...] = value

    def _further_parts(self) -> list[Part]:
        common = [name for name in self._arrays if name not in self._own]
        own = [name for name in self._arrays if name in self._own]
        parts = [*super()._further_parts(), self._arrays_part("arrays", common)]
        return [*parts, self._arrays_part("own arrays", own, own=True)] if own else parts

    def _arrays_part(self, name: str, arrays: list[str], own: bool = False) -> Part:
        live = {array: self._arrays[array] for array in arrays}

        def take(keep: Keep) -> Any:
            return {array: keep(np.asarray(value)) for array, value in live.items()}

        def put(values: Any) -> None:
            for array, value in values.items():
                np.copyto(live[array], value)

        return Part(name, take, put, own)

    def _broadcast(self, root: int) -> None:
        super()._broadcast(root)
        handles = [
            on_arrays.broadcast_async(array, root, f"elastic.array.{name}", out=array)
            for name, array in self._arrays.items()
            if name not in self._own
        ]
        for handle in handles:
            handle.wait()
