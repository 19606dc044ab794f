"""Answers to `import horovod` in jobs that `ronde run --horovod` and horovodrun start.

Scripts written for Horovod's PyTorch, TensorFlow 2 and Keras APIs then run unedited. The parts of
Horovod that Ronde does not have are missing modules; the error says what takes their place.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from ronde import run

# The version of Horovod whose API this is.
__version__ = "0.28.1"

__all__ = ["__version__", "run"]

# Modules that have the same name in Ronde, with all in them, and those that have another one.
_SAME = (
    *("common.basics.", "common.elastic.", "common.exceptions."),
    *("keras.", "ray.", "tensorflow.", "torch."),
)
_RENAMED = {
    "common.process_sets": "_job.process_sets",
    "runner.elastic.worker": "_elastic.changes",
    "tensorflow.keras.callbacks": "keras.callbacks",
    **dict.fromkeys(("ray.runner", "ray.elastic", "ray.elastic_v2"), "ray"),
}
_DATA = "run tf.data in each rank, or TensorFlow's own tf.data service"
_AGGREGATION = "pass backward_passes_per_step to DistributedOptimizer()"
# The advice in place of each package; the longest name that fits counts.
_INSTEAD = {
    "horovod.spark": "start the job with `ronde run` or horovodrun, on hosts that ssh reaches",
    "horovod.mxnet": "Ronde serves PyTorch, TensorFlow 2, Keras 3 and NumPy",
    "horovod.tensorflow.data": _DATA,
    "horovod.tensorflow.gradient_aggregation": _AGGREGATION,
    "horovod.tensorflow.gradient_aggregation_eager": _AGGREGATION,
    "horovod.runner": "of Horovod's runner there is run(); the command horovodrun does the rest",
}


class _Alias(MetaPathFinder, Loader):
    """Asked first: makes a module of Horovod the very module of Ronde."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds Horovod's modules that Ronde has."""
        package, _, short = name.partition(".")
        if package != "horovod" or not (short in _RENAMED or f"{short}.".startswith(_SAME)):
            return None
        found = importlib.util.find_spec(f"ronde.{_RENAMED.get(short, short)}")
        return None if found is None else ModuleSpec(name, self, loader_state=found)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Ronde's module."""
        return importlib.import_module(spec.loader_state.name)

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own spec back, which the import has replaced."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


class _Missing(MetaPathFinder):
    """Asked last, so for modules that are not there: raises an error that says what to do."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raises ModuleNotFoundError for Horovod's modules that Ronde does not have."""
        known = [part for part in _INSTEAD if f"{name}.".startswith(f"{part}.")]
        if known:
            hint = _INSTEAD[max(known, key=len)]
            raise ModuleNotFoundError(f"Ronde has no {name}: {hint}", name=name)


sys.meta_path.insert(0, _Alias())
sys.meta_path.append(_Missing())
