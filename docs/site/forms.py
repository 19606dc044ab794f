"""Lets the reference see functions that `ronde._forms` makes: both forms of one definition."""

from __future__ import annotations

import ast
import copy
from typing import Any

import griffe

ONLY_BLOCKING = "forms_with"


class Forms(griffe.Extension):
    """Documents `x, x_async = forms(_x)` and `x = blocking(_x)` with the parameters of `_x`."""

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """Replaces the attributes that such assignments in `mod` make."""
        if not str(mod.filepath).endswith(".py"):
            return
        for node in ast.parse(mod.filepath.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                self._replace(mod, node.targets[0], node.value)

    def _replace(self, module: griffe.Module, targets: ast.expr, call: ast.Call) -> None:
        function = call.func.id if isinstance(call.func, ast.Name) else ""
        if function not in ("blocking", "forms", ONLY_BLOCKING):
            return
        start = module[ast.unparse(call.args[-1])]
        elements = targets.elts if isinstance(targets, ast.Tuple) else [targets]
        blocking, *others = (ast.unparse(element) for element in elements)
        left_out = ast.literal_eval(call.args[0]) if function == ONLY_BLOCKING else ""
        self._add(module, start, blocking, result_of(start.returns), "")
        for asynchronous in others:
            self._add(module, start, asynchronous, start.returns, left_out)
            module[asynchronous].docstring = griffe.Docstring(f"Starts `{blocking}()`.")

    def _add(
        self, module: griffe.Module, start: griffe.Function, name: str, returns: Any, left_out: str
    ) -> None:
        parameters = [p for p in list(start.parameters)[1:] if p.name != left_out]
        made = griffe.Function(
            name,
            parameters=griffe.Parameters(*copy.copy(parameters)),
            returns=returns,
            docstring=start.docstring,
            lineno=start.lineno,
            endlineno=start.endlineno,
            parent=module,
        )
        module.set_member(name, made)


def result_of(handle: Any) -> Any:
    """Returns R of `Handle[R]`."""
    return handle.slice if isinstance(handle, griffe.ExprSubscript) else handle
