"""The names that a module of the package lists as public, without an import of it."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "bindings" / "python" / "ronde"


def names_of(path):
    """`__all__` of a module, with the lists of other modules that it adds."""
    names, modules = [], {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
        elif isinstance(node, ast.Import):
            modules.update({a.asname or a.name: a.name for a in node.names})
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == "__all__":
                names += listed(node.value, modules)
    return names


def listed(value, modules):
    """The names of a list, of another module's `__all__`, or of a list with such parts."""
    if isinstance(value, ast.List):
        return [name for element in value.elts for name in listed(element, modules)]
    if isinstance(value, ast.Constant):
        return [value.value]
    inner = value.value if isinstance(value, ast.Starred) else value
    module = ast.unparse(inner).removesuffix(".__all__")
    return names_of(file_of(modules[module]))


def file_of(module):
    """The source file of a module."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
