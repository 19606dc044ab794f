"""Broadcasts the root's Keras variables, on both backends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ronde._job import ProcessSet, global_process_set
from ronde.keras import _backend


def broadcast_variables(
    variables: Sequence[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives every rank the root's values, in place. Errors: as ronde.tensorflow's."""
    if _backend.name() == "tensorflow":
        from ronde.tensorflow.functions import broadcast_variables as broadcast

        broadcast(variables, root_rank, process_set)
        return
    import torch

    from ronde.torch.mpi_ops import broadcast_async_, synchronize

    with torch.no_grad():
        handles = [
            broadcast_async_(v.value.data, root_rank, f"keras.{i}", process_set)
            for i, v in enumerate(variables)
        ]
        for handle in handles:
            synchronize(handle)
