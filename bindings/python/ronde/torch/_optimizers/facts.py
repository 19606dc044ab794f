"""Tensors and numbers of optimizers, as ranks compare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ronde._job.process_sets import ProcessSet
from ronde._training.first_step import FirstStep
from ronde._training.replica_check import ReplicaCheck
from ronde._training.replicas import Bytes, Fact

_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Keys of groups and states: parameters are compared by their names; LBFGS keeps its rank's loss.
_OWN = ("params", "prev_loss")


def first_step(process_set: ProcessSet) -> FirstStep:
    """The check of an optimizer's parameters, in its first step."""
    return FirstStep(process_set, "call hvd.broadcast_parameters(model.state_dict(), root_rank=0)")


def replica_check(process_set: ProcessSet, names: Mapping[torch.Tensor, str]) -> ReplicaCheck:
    """The check of an optimizer's replicas, every few steps."""
    return ReplicaCheck(process_set, next(iter(names.values()), "nothing"))


class _TensorFact(Fact):
    """A torch tensor. Those of classes of others, such as DTensor, have no bytes here."""

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.name, self.dtype = name, str(tensor.dtype)[6:]
        self._plain = type(tensor) in _PLAIN and tensor.layout is torch.strided
        self.shape = tensor.shape
        kind = f"{self.dtype}{list(tensor.shape)}"
        self.label = self.form = f'"{name}" ({kind if self._plain else type(tensor).__name__})'

    def memory(self) -> Any:
        tensor = self._tensor
        as_it_is = self._plain and tensor.is_cpu and tensor.is_contiguous()
        if as_it_is and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg()):
            return tensor.data_ptr(), tensor.numel() * tensor.element_size()
        return self.bytes()

    def bytes(self) -> Bytes | None:
        tensor = self._tensor
        if not self._plain or tensor.is_meta or tensor.is_quantized:
            return None
        held = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return np.asarray(held.reshape(-1).view(torch.uint8).numpy())

    def numbers(self, data: Bytes) -> list[Any]:
        return list(torch.from_numpy(data).view(self._tensor.dtype).tolist())

    def write(self, data: Bytes) -> None:
        values = torch.from_numpy(data).view(self._tensor.dtype).reshape(self.shape)
        with torch.no_grad():
            self._tensor.copy_(values)


def facts(tensors: Iterable[torch.Tensor], names: Mapping[torch.Tensor, str]) -> Iterator[Fact]:
    """One of each tensor."""
    for tensor in tensors:
        yield _TensorFact(names.get(tensor, "added"), tensor)


class Comparing:
    """Mixed into optimizers that compare their replicas."""

    _replicas: ReplicaCheck
    _compares_state = True  # which is the same on all ranks

    def check_replicas(self: Any, extra: Mapping[str, Any] | None = None) -> bool:
        """Compares parameters and the optimizer's state over ranks now. Collective.

        extra: further tensors and numbers by name, such as dict(model.named_buffers()), the same
        names on all ranks. Returns True if all ranks have the same bits. Otherwise it acts as
        RONDE_REPLICA_CHECK says, and the log names ranks, tensor, step and values. Ranks that have
        joined take no part. Raises MismatchError on all ranks if that is "fail".
        """
        return bool(self._replicas.check_now(self._replica_facts, extra))

    def _replica_facts(self: Any, extra: Any = None) -> Iterator[Fact]:
        """The options of groups, the parameters, their state, and tensors of the user's."""
        names: Mapping[torch.Tensor, str] = self._parameter_names
        parameters = [p for group in self.param_groups for p in group["params"]]
        if self._compares_state:
            for number, group in enumerate(self.param_groups):
                yield from _nested(group, f" of group {number}")
        yield from facts(parameters, names)
        if self._compares_state:
            for parameter in parameters:
                state = self.state.get(parameter, {})
                yield from _nested(state, f" of {names.get(parameter, 'added')}")
        yield from _nested(extra or {}, "")


def _nested(values: Any, of: str, inside: str = "") -> Iterator[Fact]:
    """The tensors and numbers in a dictionary or list, and in those that it holds."""
    keys = range(len(values)) if isinstance(values, list) else sorted(values, key=str)
    for key in keys:
        value, name = values[key], f"{inside}{key}{of}"
        if key in _OWN:
            continue
        if isinstance(value, torch.Tensor):
            yield _TensorFact(name, value)
        elif isinstance(value, (bool, int, float)):
            fact = Fact(name, value, partial(_put, values, key))
            fact.form = fact.label
            yield fact
        elif isinstance(value, (dict, list)):
            yield from _nested(value, of, f"{inside}{key}.")


def _put(values: Any, key: Any, number: Any) -> None:
    values[key] = type(values[key])(number.item())
