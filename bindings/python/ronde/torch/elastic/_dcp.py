"""Checkpoints of TorchStates in the format of torch.distributed.checkpoint.

Tensors have the names that torch gives them: "model.0.weight", "optimizer.state.0.exp_avg". The
entry "ronde" has the rest, with the tensors' names in their places.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ronde._errors import InvalidArgumentError

_REST = "ronde"


class _Named(NamedTuple):
    """The place of a tensor that is stored by its name."""

    name: str


@functools.cache
def _dcp() -> Any:
    """torch.distributed.checkpoint, or None. It is imported at first use: that takes a second."""
    with suppress(ImportError):  # torch can be built without torch.distributed
        return importlib.import_module("torch.distributed.checkpoint")
    return None


def available() -> bool:
    """True if this torch has what is needed (torch 2.2)."""
    return hasattr(_dcp(), "save") and hasattr(_dcp(), "FileSystemReader")


def _without_tensors(value: Any, name: str) -> Any:
    """Nested dictionaries and lists, with the names of tensors in their places."""
    if type(value) is torch.Tensor:
        return _Named(name)
    if isinstance(value, dict):
        return {key: _without_tensors(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_without_tensors(item, f"{name}.{at}") for at, item in enumerate(value)]
    return value


def _with_tensors(value: Any, find: Callable[[str], Any]) -> Any:
    if isinstance(value, _Named):
        return find(value.name)
    if isinstance(value, dict):
        return {key: _with_tensors(item, find) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_tensors(item, find) for item in value]
    return value


def _alone(call: Callable[..., Any], state: dict[str, Any], **options: Any) -> None:
    """Calls torch for this process alone, though torch.distributed may be in use."""
    if "no_dist" in inspect.signature(call).parameters:
        options["no_dist"] = True
    elif torch.distributed.is_initialized():
        raise InvalidArgumentError(
            'format="dcp" needs a newer torch while torch.distributed is in use; allowed: "ronde"'
        )
    # One process is intended. A filter for one call alone would not be safe: others run threads.
    warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninit")
    call(state, **options)


def save(folder: Path, values: dict[str, Any]) -> None:
    """Writes state dictionaries and objects by their names."""
    rest = {name: _without_tensors(value, name) for name, value in values.items()}
    packed = pickle.dumps(rest, protocol=5)
    _alone(_dcp().save, {**values, _REST: packed}, storage_writer=_dcp().FileSystemWriter(folder))


def load(folder: Path) -> dict[str, Any]:
    """Reads what save() wrote. Raises InvalidArgumentError for checkpoints of others."""
    known = _dcp().FileSystemReader(folder).read_metadata().state_dict_metadata
    if _REST not in known:
        raise InvalidArgumentError(f"{folder} was not written by a TorchState")
    wanted: dict[str, Any] = {_REST: b""}
    for name, facts in known.items():
        if hasattr(facts, "size"):
            wanted[name] = torch.empty(facts.size, dtype=facts.properties.dtype)
    _alone(_dcp().load, wanted, storage_reader=_dcp().FileSystemReader(folder))
    rest: dict[str, Any] = pickle.loads(wanted[_REST])
    return {name: _with_tensors(value, wanted.__getitem__) for name, value in rest.items()}
