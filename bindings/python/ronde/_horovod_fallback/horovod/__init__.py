"""Answers to `import horovod` in jobs of horovodrun: Horovod where it is installed, else Ronde.

It comes first in the module search path, so it looks for Horovod in the rest of that path.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ALIAS = os.path.join(os.path.dirname(_FOLDER), "_horovod_alias")


def _load(spec: importlib.machinery.ModuleSpec) -> None:
    """Puts the module of `spec` in this module's place."""
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["horovod"] = module
    spec.loader.exec_module(module)


def _found(path: list[str]) -> importlib.machinery.ModuleSpec | None:
    """The package horovod on this path. A folder without __init__.py is none."""
    spec = importlib.machinery.PathFinder.find_spec("horovod", path)
    return spec if spec is not None and spec.loader is not None and spec.origin else None


def _say(origin: str) -> None:
    if os.environ.get("HOROVOD_RANK", "0") == "0":
        print(
            f"horovodrun: `import horovod` imports {os.path.dirname(origin)}, which is installed; "
            "with --horovod it imports ronde",
            file=sys.stderr,
            flush=True,
        )


_installed = _found([p for p in sys.path if os.path.abspath(p or ".") != _FOLDER])
if _installed is not None:
    _say(str(_installed.origin))
_chosen = _installed or _found([_ALIAS])
if _chosen is None:
    raise ModuleNotFoundError(f"there is no package horovod in {_ALIAS}", name="horovod")
_load(_chosen)
