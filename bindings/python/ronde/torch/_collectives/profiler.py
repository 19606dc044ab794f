"""Collectives in the traces of torch.profiler: an event "ronde::allreduce" for each operation.

Its arguments have the names of torch's own record_param_comms (Collective name, dtype, In msg
nelems, Group size, Process Group Ranks, ...), and with record_shapes=True the inputs' shapes. The
event lasts while the caller is in Ronde: to its end for a blocking call, to the submission for an
asynchronous one. Torch lets only its C++ code make events named record_param_comms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.autograd import profiler

from ronde import _core
from ronde._calls.reduce_ops import ReduceOp

_autograd: Any = torch.autograd
_KINDS = tuple(_core.collectives())
_REDUCTIONS = _core.reductions()
_MOST_RANKS = 32  # that an event lists


class _Asked:
    """Asks if a profiler runs where torch has no flag for it, before 2.1."""

    @property
    def _is_profiler_enabled(self) -> bool:
        return bool(_autograd._profiler_enabled())


# Its attribute _is_profiler_enabled costs less to read than any call.
switch: Any = profiler if hasattr(profiler, "_is_profiler_enabled") else _Asked()


def _with_keywords() -> Callable[[str, list[Any], dict[str, Any]], Any] | None:
    """Torch's class for events with named arguments, which it has from 2.4 on."""
    try:
        from torch._C._profiler import _RecordFunctionFast

        _RecordFunctionFast("ronde", [], {})
    except (ImportError, TypeError):
        return None
    return _RecordFunctionFast


class _Positional:
    """An event of an older torch: its last input is the list of ranks."""

    def __init__(self, name: str, inputs: list[Any], ranks: list[int]) -> None:
        self._event = _autograd._record_function_with_args_enter(name, *inputs, ranks)

    def __exit__(self, *_: object) -> None:
        _autograd._record_function_with_args_exit(self._event)


_event = _with_keywords()


@cache
def _type_name(dtype: torch.dtype) -> str:
    """As torch's C++ code writes it: "Float", "BFloat16", "Long"."""
    return torch.empty(0, dtype=dtype).type().rpartition(".")[2].removesuffix("Tensor")


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_MOST_RANKS]))
    return f"[{shown}, ...]" if len(ranks) > _MOST_RANKS else f"[{shown}]"


def begin(
    kind: int,
    inputs: Sequence[torch.Tensor | None],
    outputs: Sequence[torch.Tensor | None],
    ranks: list[int],
    name: str,
    group: str,
    op: int,
    root: int,
) -> Any:
    """Begins the event of an operation; its __exit__() ends it. Called while a profiler runs.

    outputs: None for those whose size is not known yet. root: a rank of the job, or -1.
    """
    given = [tensor for tensor in inputs if tensor is not None]
    collective = _KINDS[kind]
    if _event is None:
        return _Positional(f"ronde::{collective}", given, ranks)
    named: dict[str, Any] = {
        "Collective name": collective,
        "dtype": _type_name(given[0].dtype) if given else "",
        "In msg nelems": sum(tensor.numel() for tensor in given),
        "Group size": len(ranks),
        "Process Group Name": group,
        "Process Group Ranks": _listed(ranks),
    }
    made = [tensor for tensor in outputs if tensor is not None]
    if len(made) == len(outputs):
        named["Out msg nelems"] = sum(tensor.numel() for tensor in made)
    if name:
        named["Name"] = name
    if collective in _REDUCTIONS:
        named["Reduce op"] = str(ReduceOp(op))
    if root >= 0:
        named["Root"] = root
    event = _event(f"ronde::{collective}", given, named)
    event.__enter__()
    return event
