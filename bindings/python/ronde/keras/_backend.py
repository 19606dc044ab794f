"""The parts of Ronde for Keras' backend."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import keras

from ronde._calls.argument_checks import check
from ronde._errors import UnsupportedError
from ronde._job.process_sets import ProcessSet, global_process_set


def name() -> str:
    """ "tensorflow" or "torch". Raises UnsupportedError for others."""
    backend = str(keras.backend.backend())
    if backend not in ("tensorflow", "torch"):
        raise UnsupportedError(
            f"Keras runs on {backend}; ronde.keras serves its backends tensorflow and torch"
        )
    return backend


def runs_eagerly() -> bool:
    """False while TensorFlow traces a graph."""
    return bool(name() == "torch" or importlib.import_module("tensorflow").executing_eagerly())


def _module(of_tensorflow: str, of_torch: str) -> Any:
    """The module for the backend. The other framework may not be installed."""
    return importlib.import_module(of_tensorflow if name() == "tensorflow" else of_torch)


def options_class() -> Any:
    """The class that averages gradients."""
    return _module("ronde._tensorflow.gradients", "ronde.keras._torch").Options


def compression_class() -> Any:
    """Compression, for tensors of the backend."""
    return _module("ronde._tensorflow.compression", "ronde.torch.compression").Compression


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives every rank the root's values, in place. Errors: as ronde.tensorflow's."""
    functions = _module("ronde._tensorflow.variables", "ronde.keras._torch")
    functions.broadcast_variables(variables, root_rank, process_set)


def return_variables(variables: Sequence[Any], rank: int, process_set: ProcessSet) -> None:
    """Gives all ranks of the set the values of one, in place; inside of graphs, too."""
    if name() == "tensorflow":
        importlib.import_module("ronde._tensorflow.variables").broadcast_(
            variables, rank, process_set=process_set
        )
    else:
        broadcast_variables(variables, rank, process_set)


def broadcast_global_variables(root_rank: int) -> None:
    """Raises UnsupportedError (a RuntimeError): Keras 3 has no global variables."""
    check(root_rank=root_rank)
    raise UnsupportedError(
        f"broadcast_global_variables({root_rank}): Keras 3 has no global variables; pass "
        f"callbacks.BroadcastGlobalVariablesCallback({root_rank}) to model.fit(), or call "
        f"broadcast_variables(model.variables, {root_rank})"
    )
