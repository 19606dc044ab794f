"""DistributedOptimizer: makes a user's optimizer work on all ranks together."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ronde._calls.described import described
from ronde._calls.reduce_ops import Adasum, Average
from ronde._errors import InvalidArgumentError
from ronde._job.process_sets import ProcessSet, global_process_set
from ronde._training.gradients import GradientOptions, check_passes
from ronde._training.mixing import mixed
from ronde.torch._optimizers.averaging import AveragingOptimizer
from ronde.torch._optimizers.delta import DeltaOptimizer
from ronde.torch._optimizers.gradients import Parameter
from ronde.torch._optimizers.preparing import check_optimizer
from ronde.torch._optimizers.wrapped_types import typed
from ronde.torch._sharded.kinds import way_to_shard
from ronde.torch._sharded.optimizer import ShardedOptimizer, check_sharded
from ronde.torch.compression import Compression
from ronde.torch.sharded_embedding import is_shard


@typed
@described
def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Parameter]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Parameter]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    flat_gradients: bool = False,
    weight: float | None = None,
    shard: str | None = None,
    shard_by: str | None = None,
    model: torch.nn.Module | None = None,
) -> Any:
    """Makes an optimizer average its gradients over all ranks before each step.

    Each gradient is sent during backward, as soon as it is complete. The result has the class of
    `optimizer`, shares its parameters and state, and adds synchronize(), skip_synchronize(),
    set_backward_passes_per_step(n), set_weight(samples) and check_replicas().

    named_parameters: (name, parameter) pairs, usually model.named_parameters(); without it, names
    are generated in order, so all ranks must construct their optimizers in the same order.
    compression: the codec of gradients (see Compression). Ronde's codecs do not compress parameters
    of one dimension (biases and norms). Or rules for parameters of any dimension and size, of which
    the first match applies: a list of Compression.rule(...), a dictionary from patterns of names
    (as of fnmatch) to compressors, or a function of (name, parameter). Others are not compressed.
    backward_passes_per_step: gradients accumulate over these backward passes and are averaged once.
    op: Average, or any other that allreduce() knows. With Adasum the optimizer steps by this rank's
    gradients, then the changes of parameters are combined over ranks; groups and
    backward_passes_per_step have no effect there, and skip_synchronize() raises AssertionError.
    gradient_predivide_factor: with Average, divides by it before the sum and by the rest after.
    groups: lists of parameters whose gradients are fused, or the number of groups (num_groups).
    sparse_as_dense: sparse gradients become dense before they are sent.
    flat_gradients: gradients are views of one flat buffer in shared memory for each group (of 4 MiB
    without groups), which is sent without a copy. After zero_grad() they are zeros, not None. Not
    for sparse gradients.
    weight: of this rank's gradients in the average, as set_weight() changes it at each step: the
    number of its samples, where batches differ between ranks. On all ranks or on none.
    shard: "optimizer" or "gradients": each rank updates a part of the parameters and keeps that
    part's state. Gradients leave by reduce-scatter; "gradients" frees them meanwhile. With
    compression gradients are rounded with error feedback, and parameters return as rounded
    differences. See docs/sharded.md for what the result adds and state_dict(), which is collective.
    shard_by: "elements" or "tensors", which whole-tensor optimizers (Muon, Adafactor) have.
    model: with shard, parameters return during its next forward pass, and not in step().
    Raises InvalidArgumentError (a ValueError) for bad names, groups, compressions; TypeError: op.
    """
    check_optimizer(optimizer, (AveragingOptimizer, DeltaOptimizer))
    _check_whole(optimizer)
    options = GradientOptions(
        compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups, process_set
    )
    check_passes(backward_passes_per_step)
    if shard is not None:
        way = way_to_shard(optimizer, shard_by)
        check_sharded(shard, way, model, options, flat_gradients, weight)
    elif shard_by is not None or model is not None:
        raise InvalidArgumentError("shard_by and model are for shard=...")
    previous = _whole_again(optimizer)
    # It shares parameter groups and state, so that existing schedulers see changes.
    mixin = ShardedOptimizer if shard is not None else AveragingOptimizer
    wrapped = mixed(DeltaOptimizer if op == Adasum and shard is None else mixin, optimizer)
    wrapped.__dict__.pop("step", None)
    if shard is not None:
        wrapped._shard(shard, way, model)
    try:
        wrapped._distribute(
            named_parameters, backward_passes_per_step, flat_gradients, options, weight
        )
    except BaseException:
        if previous is not None:
            _shard_again(optimizer, previous)
        raise
    if shard is not None:
        optimizer.__dict__["_sharded_by"] = wrapped  # alive on all ranks alike
    _tell_schedulers(optimizer)
    return wrapped


def _check_whole(optimizer: torch.optim.Optimizer) -> None:
    """Raises InvalidArgumentError for parameters that each rank has a part of."""
    if any(is_shard(p) for group in optimizer.param_groups for p in group["params"]):
        raise InvalidArgumentError(
            "the optimizer has the weight of a ShardedEmbedding, whose gradient its owner has "
            "already; give that an optimizer of its own"
        )


def _whole_again(optimizer: torch.optim.Optimizer) -> Any:
    """Gives the optimizer the state of which its last wrapper has shards. Collective.

    Returns that wrapper; None if there is none.
    """
    previous = optimizer.__dict__.pop("_sharded_by", None)
    if previous is not None:
        previous._unshard()
        optimizer.state = previous.state
    return previous


def _shard_again(optimizer: torch.optim.Optimizer, previous: Any) -> None:
    """Undoes _whole_again()."""
    optimizer.__dict__["_sharded_by"] = previous
    previous._prepare(previous._parameters())


def _tell_schedulers(optimizer: Any) -> None:
    """Lets schedulers made before know of steps: torch warns of one that finds none."""
    if not hasattr(optimizer, "register_step_post_hook"):  # torch < 2.0
        return
    reference = weakref.ref(optimizer)

    def note(*_: Any) -> None:
        plain = reference()
        if plain is not None:
            plain._opt_called = True

    optimizer.register_step_post_hook(note)  # the wrapped optimizer shares the hooks
