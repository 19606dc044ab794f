"""Lets the reference see what `ronde._calls.forms` and `ronde._calls.described` do to functions.

The first makes both forms of a collective from one definition, the second explains arguments.
"""

from __future__ import annotations

import ast
import copy
import functools
from pathlib import Path
from typing import Any

import griffe

DESCRIBED = "ronde/_calls/described.py"


class Forms(griffe.Extension):
    """Documents `x, x_async = forms(_x)` with the parameters of `_x`."""

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """Replaces the attributes that such assignments in `mod` make."""
        if not str(mod.filepath).endswith(".py"):
            return
        for node in ast.parse(mod.filepath.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                self._replace(mod, node.targets[0], node.value)

        for function in mod.functions.values():
            if any(str(one.value) == "described" for one in function.decorators):
                explain(function)

    def _replace(self, module: griffe.Module, targets: ast.expr, call: ast.Call) -> None:
        if not isinstance(call.func, ast.Name) or call.func.id != "forms":
            return
        assert isinstance(targets, ast.Tuple)
        start = module[ast.unparse(call.args[0])]
        blocking, asynchronous = map(ast.unparse, targets.elts)
        text = start.docstring.value if start.docstring else ""
        self._add(module, start, blocking, result_of(start.returns), text)
        self._add(module, start, asynchronous, start.returns, f"Starts `{blocking}()`.")

    def _add(
        self,
        module: griffe.Module,
        start: griffe.Function,
        name: str,
        returns: Any,
        text: str,
    ) -> None:
        parameters = list(start.parameters)[1:]
        made = griffe.Function(
            name,
            parameters=griffe.Parameters(*copy.copy(parameters)),
            returns=returns,
            docstring=griffe.Docstring(text),
            lineno=start.lineno,
            endlineno=start.endlineno,
            parent=module,
        )
        module.set_member(name, made)
        explain(made)


def result_of(handle: Any) -> Any:
    """Returns R of `Handle[R]`."""
    return handle.slice if isinstance(handle, griffe.ExprSubscript) else handle


@functools.cache
def meanings() -> dict[str, str]:
    """Returns what `ronde._calls.described` says of arguments that several functions have."""
    path = Path(__file__).resolve().parents[2] / "bindings" / "python" / DESCRIBED
    constants: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            constants[ast.unparse(node.targets[0])] = node.value.value
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            pairs = zip(node.value.keys, node.value.values)
            return {
                ast.literal_eval(key): constants.get(ast.unparse(value)) or ast.literal_eval(value)
                for key, value in pairs
                if key is not None
            }
    return {}


def explain(function: griffe.Function) -> None:
    """Adds the meaning of each argument that the function's text does not explain itself."""
    text = function.docstring.value if function.docstring else ""
    lines = [
        f"- `{parameter.name}`: {meanings()[parameter.name]}."
        for parameter in function.parameters
        if parameter.name in meanings() and f"{parameter.name}: " not in text
    ]
    if lines:
        function.docstring = griffe.Docstring("\n".join([text, "", *lines]))
