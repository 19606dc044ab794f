"""Helpers that Horovod scripts call."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde._calls.reduce_ops import reduce_op
from ronde._job.builds import cuda_built


def gpu_available(ext_base_name: str = "tensorflow", verbose: bool = False) -> bool:
    """True if collectives can use tensors on GPUs."""
    del ext_base_name, verbose
    return cuda_built()


def check_num_rank_power_of_2(num_rank: int) -> bool:
    """True if the number of ranks is a power of two."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def _executing_eagerly() -> bool:
    """True in eager mode; Horovod's test suites call it."""
    return bool(tf.executing_eagerly())


def vars_to_refs(vars: Any) -> Any:
    """The variable's ref(), which can be a key; a tuple of them for a list of variables."""
    return tuple(vars_to_refs(v) for v in vars) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """The opposite of vars_to_refs()."""
    return [refs_to_vars(ref) for ref in refs] if isinstance(refs, tuple) else refs.deref()


def handle_average_backwards_compatibility(op: int | None, average: bool | None) -> int:
    """The reduce operation that Horovod's arguments `op` and `average` select together."""
    return reduce_op(average, op)
