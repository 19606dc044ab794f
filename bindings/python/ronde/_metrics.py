"""This rank's counters as a dict, for loggers such as TensorBoard and Weights & Biases."""

from __future__ import annotations

import re

from ronde._runtime import runtime

__all__ = ["metrics"]

# Labels that say who the rank is, which a logger knows.
_OWN = re.compile(r'(?:rank|worker)="[^"]*",?')
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def metrics() -> dict[str, float]:
    """Counters and gauges of this rank so far, by the names of docs/metrics.md. Blocks: never.

    Labels follow a name, as in `ronde_operations_total{kind="allreduce"}`, but for the rank's own.
    Of histograms there are `_sum` (seconds) and `_count`. Threads: any.
    Errors: NotInitializedError.
    """
    found = {}
    for name, labels, value in _SAMPLE.findall(runtime().metrics_text()):
        if name == "ronde_info" or name.endswith("_bucket"):
            continue
        shown = _OWN.sub("", labels).rstrip(",")
        found[f"{name}{{{shown}}}" if shown else name] = float(value)
    return found
