"""An optimizer's state: sent with its tensors apart, and set in place.

Schedulers, wrapped optimizers and users hold references to an optimizer's groups and tensors. And
load_state_dict() gives state the parameter's dtype, and some containers another type. So values go
into the objects that are there, with the types that they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from ronde._collectives.pickling import pickled, unpickled
from ronde._errors import InvalidArgumentError
from ronde._snapshots.array_kinds import clone
from ronde._snapshots.nested import Keep, Setting, copied
from ronde.torch._collectives.adapter import can_move
from ronde.torch._optimizers import tensor_kind as tensor_kind

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_load_state_dict: Any = torch.optim.Optimizer.load_state_dict


class _Form(NamedTuple):
    """Replaces a tensor in a pickle."""

    place: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    on_host: bool


class TensorsApart:
    """The pickle of an optimizer's state without its tensors, which are sent one by one."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer of this rank: its parameters' device gets the tensors of devices."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.tensors: list[torch.Tensor] = []  # those to send, or to receive into
        self._device = next((p.device for p in parameters if p.is_cuda), torch.device("cpu"))
        self._forms: dict[int, _Form] = {}  # by the id of a tensor

    def pickled(self, state: Any) -> bytes:
        """Raises InvalidArgumentError if it cannot be pickled."""
        return pickled(state, self._take)

    def unpickled(self, data: bytes) -> Any:
        """The state, with tensors that have no values yet."""
        return unpickled(data, self._make)

    def _take(self, value: Any) -> _Form | None:
        if type(value) not in _PLAIN or not can_move(value):
            return None
        if id(value) not in self._forms:
            stride = torch.empty_like(value, device="meta").stride()
            on_host = value.device.type == "cpu"
            place, shape = len(self.tensors), tuple(value.shape)
            self._forms[id(value)] = _Form(place, shape, stride, value.dtype, on_host)
            sent = value.detach().resolve_conj().resolve_neg()
            self.tensors.append(sent.contiguous() if 0 in stride else sent)
        return self._forms[id(value)]

    def _make(self, form: _Form) -> torch.Tensor:
        if form.place == len(self.tensors):
            device = torch.device("cpu") if form.on_host else self._device
            made = torch.empty_strided(form.shape, form.stride, dtype=form.dtype, device=device)
            self.tensors.append(made)
        return self.tensors[form.place]


def put_state(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Gives an optimizer the state and options of a state_dict(), which stays as it is.

    Tensors without a place go to their parameter's device. Raises InvalidArgumentError if the
    groups differ in their numbers of parameters.
    """
    if type(optimizer).load_state_dict is _load_state_dict:
        _put(optimizer, saved)
        return
    with _loading_in_place():  # it may load more than torch's does
        optimizer.load_state_dict(copied(saved))


@contextmanager
def _loading_in_place() -> Iterator[None]:
    """In this context torch's own load_state_dict() sets in place, also called by others."""
    owner: Any = torch.optim.Optimizer
    owner.load_state_dict = _put
    try:
        yield
    finally:
        owner.load_state_dict = _load_state_dict


def _put(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    groups: Any = optimizer.param_groups
    _check_groups(groups, saved["param_groups"])
    live = [p for group in groups for p in group["params"]]
    numbers = [number for group in saved["param_groups"] for number in group["params"]]
    setting, parameters = Setting(), dict(zip(numbers, live))
    keeps: dict[Any, Keep] = {}
    for group, wanted in zip(groups, saved["param_groups"]):
        setting.set(group, {**wanted, "params": group["params"]})
        keeps.update((parameter, _keep_for(parameter, group)) for parameter in group["params"])
    before = dict(optimizer.state)
    optimizer.state.clear()
    for number, values in saved["state"].items():
        key = parameters.get(number, number)
        keep = keeps.get(key, clone)
        optimizer.state[key] = setting.set(before.get(key), values, keep)


def _check_groups(groups: Any, saved: Any) -> None:
    here, there = ([len(group["params"]) for group in some] for some in (groups, saved))
    if here != there:
        raise InvalidArgumentError(
            f"the state is of an optimizer whose groups have {there} parameters, but this one's "
            f"have {here}"
        )


def _keep_for(parameter: torch.Tensor, group: dict[str, Any]) -> Keep:
    """Copies tensors of the parameter's state to its device; single numbers as torch wants them."""
    moves_numbers = group.get("capturable") or group.get("fused")

    def keep(array: Any) -> Any:
        if isinstance(array, torch.Tensor) and (array.dim() or moves_numbers):
            return array.detach().to(parameter.device, copy=True)
        return clone(array)

    return keep
