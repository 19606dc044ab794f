"""Parameters that return while the next forward pass runs: modules wait for their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from ronde._calls.handle import Handle
from ronde._errors import Error
from ronde.torch._sharded.buckets import ShardBucket
from ronde.torch._sharded.differences import Arriving


class Hook:
    """A hook of a module. In a copy of the module, such as a saved one, it does nothing."""

    def __init__(self, call: Callable[..., None] | None = None) -> None:
        """call: takes what the hook is given."""
        self._call = call

    def __call__(self, *given: Any) -> None:
        """Called by the module."""
        if self._call is not None:
            self._call(*given)

    def __reduce__(self) -> Any:
        return Hook, ()


class Returning:
    """The allgathers in flight, and the hooks that wait for them.

    A module waits for buckets of its own parameters before its forward pass. A model that is asked
    for its state_dict(), or that does not train, waits for all. So does the first module for
    buckets of parameters that were used without a forward pass of their module in a step before.
    """

    def __init__(self, model: torch.nn.Module | None) -> None:
        """model: whose modules wait. Without one nothing may be in flight after a step."""
        self._in_flight: dict[ShardBucket, Handle[Any] | Arriving] = {}
        self._order: dict[ShardBucket, None] = {}  # of the buckets' first use
        self._seen: set[torch.Tensor] = set()  # parameters of modules that ran in this step
        self._used: set[torch.Tensor] = set()  # those of which backward made gradients
        self._hidden: set[torch.Tensor] = set()  # used without their module
        self._bucket_of: dict[torch.Tensor, ShardBucket] = {}
        self._hooks: list[Any] = []
        self._steps = 0
        if model is not None:
            self._watch(model)

    @property
    def overlaps(self) -> bool:
        """True once a step has shown which modules use which parameters."""
        return bool(self._hooks) and self._steps > 0

    def _watch(self, model: Any) -> None:
        before_forward = Hook(lambda module, *_: self.before(module))
        before_state = Hook(lambda *_: self.wait())
        for module in model.modules():
            if module._parameters:
                self._hooks.append(module.register_forward_pre_hook(before_forward))
        self._hooks.append(model.register_forward_pre_hook(before_forward, prepend=True))
        self._hooks.append(model.register_state_dict_pre_hook(before_state))
        self._hooks.append(model._register_load_state_dict_pre_hook(before_state))

    def use(self, buckets: list[ShardBucket]) -> None:
        """Buckets were made anew; nothing is in flight."""
        self._bucket_of = {g.parameter: bucket for bucket in buckets for g in bucket.gradients}
        self._order.clear()
        self._steps = 0

    def before(self, module: torch.nn.Module) -> None:
        """Called before a module's forward pass."""
        own = [p for p in module._parameters.values() if p is not None]
        self._seen.update(own)
        for parameter in own:
            bucket = self._bucket_of.get(parameter)
            if bucket is not None:
                self._order.setdefault(bucket)
        if not self._in_flight:
            return
        if not module.training:
            self.wait()
            return
        for used in (*own, *self._hidden):
            self._wait_for(self._bucket_of.get(used))

    def _wait_for(self, bucket: ShardBucket | None) -> None:
        handle = self._in_flight.pop(bucket, None) if bucket is not None else None
        if handle is not None:
            handle.wait()

    def note_gradients(self, bucket: ShardBucket) -> None:
        """Its gradients are about to be sent."""
        made = (g.parameter for g in bucket.gradients if g.parameter.grad is not None)
        self._used.update(made)

    def learn(self) -> None:
        """A backward pass is over: parameters that it used but no module's forward pass, hide."""
        self._hidden |= self._used - self._seen
        self._seen.clear()
        self._used.clear()
        self._steps += 1

    def in_order(self, buckets: list[ShardBucket]) -> list[ShardBucket]:
        """The buckets in the order of their first use; those made first for backward are last."""
        known = [bucket for bucket in self._order if bucket in set(buckets)]
        return known + [bucket for bucket in reversed(buckets) if bucket not in self._order]

    def note(self, bucket: ShardBucket, handle: Handle[Any] | Arriving) -> None:
        """Its parameters are under way."""
        self._in_flight[bucket] = handle

    def wait(self) -> None:
        """Waits for all."""
        while self._in_flight:
            self._wait_for(next(iter(self._in_flight)))

    def forget(self) -> None:
        """Drops those of an epoch that has ended."""
        self._in_flight.clear()

    def end(self) -> None:
        """Waits for all, and ends the hooks."""
        try:
            self.wait()
        finally:
            for hook in self._hooks:
                hook.remove()
            for kept in (self._hooks, self._bucket_of, self._order, self._in_flight):
                kept.clear()
            for used in (self._seen, self._used, self._hidden):
                used.clear()

    def end_quietly(self) -> None:
        """As end(), once the optimizer is gone. Parameters may be under way then."""
        with contextlib.suppress(Error):
            self.end()
