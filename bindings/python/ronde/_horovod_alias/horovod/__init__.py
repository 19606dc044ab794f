"""Answers to `import horovod` in jobs that `ronde run --horovod` and horovodrun start.

Scripts written for Horovod's PyTorch, TensorFlow 2 and Keras APIs then run unedited. The parts of
Horovod that Ronde does not have are missing modules; the error says what takes their place.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

from ronde import run

# The version of Horovod whose API this is.
__version__ = "0.28.1"

__all__ = ["__version__", "run"]

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


sys.meta_path.append(_Missing())
