"""Prepares models for distributed optimizers: hooks in model.compile(), and load_model()."""

from __future__ import annotations

import functools
from typing import Any

import keras

from ronde._errors import UnsupportedError
from ronde._job.runtime import is_initialized, rank
from ronde.keras import _backend, _optimizer, _sharded, _undistributed, _watched_steps


@functools.cache
def install() -> None:
    """Makes keras.Model.compile() call prepare() at its end. Installs once."""
    # Replaced where Keras defines it: loading a model compares a class's compile() with that one.
    owner: Any = next(c for c in keras.Model.__mro__ if "compile" in vars(c))
    original = owner.compile

    @functools.wraps(original)
    def compile(model: Any, *arguments: Any, **options: Any) -> None:
        # Horovod scripts for TensorFlow 2.0 pass it; Keras 3 has no such argument.
        options.pop("experimental_run_tf_function", None)
        original(model, *arguments, **options)
        prepare(model, options.get("jit_compile", "auto"))

    owner.compile = compile
    _install_watch()


def _install_watch() -> None:
    """Makes train functions of distributed models check their second step; others are told of."""
    owner: Any = next(c for c in keras.Model.__mro__ if "make_train_function" in vars(c))
    original = owner.make_train_function

    @functools.wraps(original)
    def make_train_function(model: Any, *arguments: Any, **options: Any) -> Any:
        made = original(model, *arguments, **options)
        sending = getattr(model.optimizer, "_ronde", None)
        if sending is not None:
            _watched_steps.watch(model, sending)
        elif is_initialized():
            _undistributed.warn_if_undistributed(model)
            _undistributed.watch(model)
        return made

    owner.make_train_function = make_train_function


def prepare(model: Any, jit_compile: Any = "auto") -> None:
    """Adapts a compiled model to its distributed optimizer. Other models are not changed.

    Raises UnsupportedError if XLA was requested.
    """
    inner = getattr(model.optimizer, "inner_optimizer", None)
    if _optimizer.is_distributed(inner):
        if _sharded.is_sharded(inner):
            raise UnsupportedError(
                "shard= does not work with the loss scale of mixed_float16; use mixed_bfloat16"
            )
        # In the other order each rank would decide alone if it skips a step.
        plain, options = _optimizer.undistribute(inner)
        model.optimizer.inner_optimizer = plain
        model.optimizer = _optimizer.distribute(model.optimizer, options)
    if not _optimizer.is_distributed(model.optimizer) or _backend.name() != "tensorflow":
        return
    if jit_compile is True:
        raise UnsupportedError(
            "XLA cannot compile collectives: set jit_compile=False in model.compile()"
        )
    model.jit_compile = False


def load_model(
    filepath: Any,
    custom_optimizers: Any = None,
    custom_objects: Any = None,
    compression: Any = None,
    legacy_opts: bool = False,
    shard: str | None = None,
) -> Any:
    """As keras.models.load_model(); its optimizer, with its state, becomes a DistributedOptimizer.

    custom_optimizers: classes of optimizers that Keras does not know.
    custom_objects: as in Keras. `legacy_opts` is accepted for Horovod scripts.
    shard: as of DistributedOptimizer().
    """
    del legacy_opts
    known = {optimizer.__name__: optimizer for optimizer in custom_optimizers or []}
    model = keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if model.optimizer is not None:
        model.optimizer = _optimizer.DistributedOptimizer(
            model.optimizer, compression=compression, shard=shard
        )
        prepare(model)
    return model


def save_model(model: Any, filepath: Any, **options: Any) -> None:
    """As model.save(), on the first rank. All call it: a sharded optimizer gathers its state.

    The file is that of a plain optimizer. load_model() loads it on any number of ranks. Raises
    InvalidArgumentError for names of sharded models that do not end in .keras.
    """
    optimizer = model.optimizer
    _sharded.check_file(optimizer, filepath)
    try:
        _sharded.gather(optimizer)
        if rank() == _sharded.writer(optimizer):
            model.save(filepath, **options)
    finally:
        _sharded.forget(optimizer)
