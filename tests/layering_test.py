"""Checks every #include and every import against the layering rules.

core uses the standard library and fmt; ops, timeline and each backend use core, never one another;
bindings use backends only through registry.h, builtin.h and net/factory.h; a third-party header
appears only in the folders named for it, and in no header that another folder includes. No folders
of C++ include one another in a circle, and no modules of Python import one another in one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
TYPE = re.compile(
    r"^(?:class|struct|enum class) (?:alignas\([^)]*\) |RONDE_\w+ )?([\w:]+)[^;]*?\{", re.MULTILINE
)
PARTS = ("core", "ops", "backends", "bindings", "timeline")

PYTHON = ROOT / "bindings/python"
MOST_MODULES = 15  # of a folder of the package, besides __init__

# First matching prefix says where a third-party header may appear ("" means anywhere).
THIRD_PARTY = {
    "fmt/": ("",),
    "doctest/": ("",),
    "pybind11/": ("bindings/python",),
    "Python.h": ("bindings/python",),
    "mpi.h": ("backends/mpi",),
    "gloo/": ("backends/gloo",),
    "nccl.h": ("backends/nccl", "support/cuda_fake"),
    "cuda": ("backends/cuda", "backends/nccl", "gpu", "support/cuda_fake"),
    "openssl/": ("backends/net", "bindings/elastic"),
    "hwy/": ("ops/kernels", "ops/compression"),
    "spdlog/": ("bindings/runtime",),
    "CLI/": ("bindings/cli", "tests/bindings/cli"),
    "yaml-cpp/": ("bindings/cli",),
    "nlohmann/": (
        "core/base",
        "timeline",
        "bindings/cli",
        "bindings/elastic",
        "bindings/runtime",
        "chaos",
        "tests/core/base",
    ),
    "simdjson": ("timeline",),
    "xxhash.h": ("core/base",),
    "nvtx3/": ("timeline",),
    "tensorflow/": ("bindings/tensorflow",),
}


def part_of(path: str) -> str:
    """The unit of the rules: "core", "ops", "backends/shm", "bindings", "timeline", "tests"."""
    pieces = path.split("/")
    if pieces[0] == "backends" and len(pieces) > 2:
        return "/".join(pieces[:2])
    return pieces[0]


def own_include_error(path: str, header: str) -> str | None:
    """Why `path` may not include Ronde's own `header`, or None where it may."""
    here, there = part_of(path), part_of(header)
    if here in ("tests", "examples") or here == there or there == "core":
        return None
    if here == "bindings":
        # The control channel is no backend: the runtime opens it by its factory.
        entries = ("backends/registry.h", "backends/builtin.h", "backends/net/factory.h")
        if there.startswith("backends") and header not in entries:
            return "bindings reach backends only through registry.h and builtin.h"
        return None
    # The list of backends includes each factory.
    if here == "backends" and header.endswith("/factory.h"):
        return None
    return f"{here} may not include {there}"


def third_party_error(path: str, header: str) -> str | None:
    """Why `path` may not include the third-party `header`, or None where it may."""
    for prefix, folders in THIRD_PARTY.items():
        if not header.startswith(prefix):
            continue
        # tests/x may use what x may.
        if not any(path.removeprefix("tests/").startswith(folder) for folder in folders):
            return f"{header} belongs in {', '.join(folders)} only"
        return None
    if "/" in header and not header.startswith(("sys/", "linux/", "netinet/", "arpa/", "net/")):
        return f"{header} is of no library that the rules name"
    return None


def errors_of(path: str, text: str) -> list[str]:
    """All offences of one file, as "path: reason"."""
    found = []
    for bracket, header in INCLUDE.findall(text):
        if header.startswith("ronde/") or header.endswith("_generated.h"):
            continue
        own = bracket == '"' and header.split("/")[0] in (*PARTS, "tests")
        error = own_include_error(path, header) if own else third_party_error(path, header)
        if error:
            found.append(f"{path}: {error}")
    return found


def reached(path: str, includes: dict[str, list[tuple[str, str]]]) -> set[tuple[str, str]]:
    """(own header, third-party header) pairs that `path` gets through other files' headers."""
    found, seen, ahead = set(), set(), [h for _, h in includes.get(path, []) if h in includes]
    while ahead:
        header = ahead.pop()
        if header in seen:
            continue
        seen.add(header)
        for _, inner in includes[header]:
            if inner in includes:
                ahead.append(inner)
            elif not inner.startswith("ronde/") and third_party_error(path, inner):
                found.add((header, inner))
    return found


def sources() -> list[Path]:
    """Every C++ file of the repository."""
    return [
        path
        for part in (*PARTS, "tests", "examples")
        for path in sorted((ROOT / part).rglob("*"))
        if path.suffix in (".h", ".cc", ".cpp", ".cu")
    ]


def test_every_include_keeps_to_the_layers():
    files = sources()
    assert len(files) > 30, "the rules were checked on hardly any file"
    errors = [
        error
        for path in files
        for error in errors_of(path.relative_to(ROOT).as_posix(), path.read_text())
    ]
    assert not errors, "\n".join(errors)


def test_every_third_party_library_that_the_rules_name_is_used():
    included = [header for path in sources() for _, header in INCLUDE.findall(path.read_text())]
    unused = [prefix for prefix in THIRD_PARTY if not any(h.startswith(prefix) for h in included)]
    assert not unused


def test_no_third_party_header_leaks_through_a_folders_headers():
    includes = {
        path.relative_to(ROOT).as_posix(): INCLUDE.findall(path.read_text()) for path in sources()
    }
    leaks = [
        f"{path} gets {inner} through {header}"
        for path in includes
        for header, inner in sorted(reached(path, includes))
    ]
    assert not leaks, "\n".join(leaks)


def types_of(text: str) -> set[str]:
    """Qualified names of the types that a header of one namespace defines."""
    namespace = NAMESPACE.search(text)
    return {f"{namespace[1]}::{name}" for name in TYPE.findall(text)} if namespace else set()


def test_no_two_headers_define_a_type_of_one_name():
    """Linkers take one of the two for both: the compiler sees no error, and programs break."""
    homes: dict[str, list[str]] = {}
    for path in sources():
        if path.suffix == ".h" and path.relative_to(ROOT).parts[0] in PARTS:
            for name in types_of(path.read_text()):
                homes.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert len(homes) > 100, "hardly any type was found"
    twice = [f"{name}: {', '.join(paths)}" for name, paths in homes.items() if len(paths) > 1]
    assert not twice, "\n".join(twice)


def test_a_planted_type_is_found():
    text = "namespace ronde {\n\nclass A final : public B {\n};\nstruct C;\nenum class D : int {\n"
    text += "struct alignas(8) E {\nclass RONDE_API F::G {\n"
    assert types_of(text) == {"ronde::A", "ronde::D", "ronde::E", "ronde::F::G"}


def test_a_planted_leak_is_found():
    includes = {
        "bindings/runtime/runtime.cc": [('"', "backends/registry.h")],
        "backends/registry.h": [('"', "backends/mpi/comm.h")],
        "backends/mpi/comm.h": [("<", "mpi.h"), ("<", "vector")],
    }
    assert reached("bindings/runtime/runtime.cc", includes) == {("backends/mpi/comm.h", "mpi.h")}
    assert not reached("backends/mpi/comm.cc", {**includes, "backends/mpi/comm.cc": []})


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("core/engine/engine.cc", '#include "ops/execution/executor.h"'),
        ("core/base/log.cc", "#include <spdlog/spdlog.h>"),
        ("core/engine/engine.cc", "#include <nlohmann/json.hpp>"),
        ("ops/execution/executor.cc", '#include "backends/shm/factory.h"'),
        ("backends/shm/group.cc", '#include "backends/net/frame.h"'),
        ("timeline/writer.cc", '#include "ops/execution/executor.h"'),
        ("bindings/runtime/runtime.cc", '#include "backends/shm/factory.h"'),
        ("ops/allreduce/ring.cc", "  #  include <mpi.h>"),
        ("backends/shm/group.cc", "#include <boost/asio.hpp>"),
    ],
)
def test_a_planted_violation_is_found(path, line):
    assert errors_of(path, f"#include <vector>\n{line}\n")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("core/engine/engine.cc", '#include "core/base/status.h"'),
        ("backends/builtin.cc", '#include "backends/shm/factory.h"'),
        ("backends/mpi/comm.cc", "#include <mpi.h>"),
        ("bindings/runtime/runtime.cc", '#include "backends/registry.h"'),
        ("backends/shm/segment.cc", "#include <sys/mman.h>"),
    ],
)
def test_an_allowed_include_is_left_alone(path, line):
    assert not errors_of(path, line)


Graph = dict[str, set[str]]


def reachable(start: str, graph: Graph) -> set[str]:
    """All nodes to which a path leads; `start` itself only where it lies on a circle."""
    seen: set[str] = set()
    ahead = [*graph.get(start, ())]
    while ahead:
        node = ahead.pop()
        if node not in seen:
            seen.add(node)
            ahead += graph.get(node, ())
    return seen


def circles(graph: Graph) -> list[set[str]]:
    """Groups of nodes each of which leads to all others of its group."""
    ends = {node: reachable(node, graph) for node in graph}
    groups = {frozenset(b for b in ends[a] if a in ends.get(b, ())) for a in graph}
    return [set(group) for group in sorted(groups, key=sorted) if len(group) > 1]


def shown(found: list[set[str]]) -> str:
    return "".join(f"\n  {' '.join(sorted(circle))}" for circle in found)


def folder_graph(includes: dict[str, list[tuple[str, str]]]) -> Graph:
    """Which folders each folder includes headers of."""
    graph: Graph = {}
    for path, headers in includes.items():
        here = path.rpartition("/")[0]
        others = {header.rpartition("/")[0] for _, header in headers if header in includes}
        graph.setdefault(here, set()).update(others - {here})
    return graph


def test_no_folders_include_one_another_in_a_circle():
    files = [path.relative_to(ROOT).as_posix() for path in sources()]
    product = [path for path in files if path.split("/")[0] in PARTS]
    found = circles(
        folder_graph({path: INCLUDE.findall((ROOT / path).read_text()) for path in product})
    )
    assert not found, f"folders that include one another:{shown(found)}"


def test_a_planted_circle_of_folders_is_found():
    includes = {
        "core/a/one.h": [('"', "core/b/two.h"), ("<", "vector")],
        "core/b/two.h": [('"', "core/b/three.h")],
        "core/b/three.h": [('"', "core/c/four.h"), ('"', "core/d/five.h")],
        "core/c/four.h": [('"', "core/a/six.h")],
        "core/a/six.h": [],
        "core/d/five.h": [],
    }
    assert circles(folder_graph(includes)) == [{"core/a", "core/b", "core/c"}]
    includes["core/c/four.h"] = [('"', "core/d/five.h")]
    assert circles(folder_graph(includes)) == []


def imported(module: str, source: str, modules: set[str], package: str = "ronde") -> set[str]:
    """The modules that one imports at run time, at its top, in functions, or by import_module()."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    by_name = "import_module" in source
    names = (name for node in ast.walk(tree) for name in names_in(node, package, by_name))
    return {found for name in names if (found := known(name, modules))} - {module}


def names_in(node: ast.AST, package: str, by_name: bool) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package.split(".")[: 1 - node.level or None] if node.level else []
        start = ".".join([*base, *filter(None, [node.module])])
        yield from (f"{start}.{alias.name}" for alias in node.names)
    elif by_name and isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def known(name: str, modules: set[str]) -> str:
    """The module that `name` is, or is an attribute of; empty if there is none."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def python_sources() -> dict[str, Path]:
    """The package's modules by name."""
    found = {}
    for path in [*PYTHON.rglob("*.py"), *PYTHON.rglob("*.pyi")]:
        name = path.relative_to(PYTHON).with_suffix("").as_posix().replace("/", ".")
        found[name.removesuffix(".__init__")] = path
    return found


def import_graph() -> tuple[Graph, set[str]]:
    """Which modules each module imports, and which of them are packages."""
    paths = python_sources()
    assert len(paths) > 100, "hardly any module was found"
    packages = {name for name, path in paths.items() if path.stem == "__init__"}
    graph = {
        name: imported(
            name,
            path.read_text(),
            {*paths},
            name if name in packages else name.rpartition(".")[0],
        )
        for name, path in paths.items()
    }
    return graph, packages


def above(module: str) -> set[str]:
    """The packages that a module is in. Importing it imports them first."""
    parts = module.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def room_of(module: str, packages: set[str]) -> str:
    """The outermost private package that a module is or is in; else the module itself."""
    rooms = [name for name in {module, *above(module)} & packages if "._" in name]
    return min(rooms, key=len, default=module)


def room_graph(graph: Graph, packages: set[str]) -> Graph:
    """Which rooms each room imports; a module outside of all rooms is one by itself."""
    rooms: Graph = {}
    for module, found in graph.items():
        loaded = found | {name for one in found for name in above(one) - {module, *above(module)}}
        here = room_of(module, packages)
        others = {room_of(one, packages) for one in loaded & {*graph}}
        rooms.setdefault(here, set()).update(others - {here})
    return rooms


def test_no_modules_import_one_another_in_a_circle():
    found = circles(import_graph()[0])
    assert not found, f"modules that import one another:{shown(found)}"


def test_no_rooms_of_modules_import_one_another_in_a_circle():
    graph, packages = import_graph()
    # ronde_torch_backend imports ronde.torch.distributed only once a process group is made.
    found = circles(room_graph({n: g for n, g in graph.items() if n[:6] == "ronde."}, packages))
    assert not found, f"rooms that import one another:{shown(found)}"


def test_no_folder_of_the_package_has_too_many_modules():
    counts: dict[str, int] = {}
    for path in python_sources().values():
        folder = path.parent.relative_to(PYTHON).as_posix()
        counts[folder] = counts.get(folder, 0) + (path.stem != "__init__")
    assert not [f"{folder}: {count}" for folder, count in counts.items() if count > MOST_MODULES]


@pytest.mark.parametrize(
    "back",
    [
        "import ronde.a",
        "def f():\n    from ronde import a",
        "from ronde.a import name",
        "from .a import name",
        "from . import a",
        "if x:\n    importlib.import_module('ronde.a')",
    ],
)
def test_a_planted_circle_of_modules_is_found(back):
    modules = {"ronde.a": "from ronde import b", "ronde.b": "import ronde.c", "ronde.c": back}
    graph = {name: imported(name, text, {*modules}) for name, text in modules.items()}
    assert circles(graph) == [{*modules}]


def test_a_planted_circle_of_rooms_is_found():
    packages = {"ronde._a", "ronde._b", "ronde.c"}
    graph = {name: set() for name in ("ronde._a", "ronde._b", "ronde._b.two", "ronde.c.d")}
    graph["ronde._a.one"], graph["ronde._b.three"] = {"ronde._b.two"}, {"ronde.c.d"}
    graph["ronde.c"] = {"ronde.c.d"}
    assert circles(room_graph(graph, packages)) == []
    # The import of ronde.c.d runs ronde.c.
    back = {**graph, "ronde.c": {"ronde._b.two"}}
    assert circles(room_graph(back, packages)) == [{"ronde._b", "ronde.c"}]
    back = {**graph, "ronde._b.three": {"ronde._a.one"}}
    assert circles(room_graph(back, packages)) == [{"ronde._a", "ronde._b"}]


def test_imports_for_types_alone_make_no_circle():
    text = "if TYPE_CHECKING:\n    from ronde import a\nelse:\n    import ronde.c\n"
    assert imported("ronde.b", text, {"ronde.a", "ronde.c"}) == {"ronde.c"}
