"""Checks every #include against the layering rules.

core uses the standard library and fmt; ops, timeline and each backend use core, never one another;
bindings use backends only through registry.h and builtin.h; a third-party header appears only in
the folders named for it, and in no header that another folder includes.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
TYPE = re.compile(
    r"^(?:class|struct|enum class) (?:alignas\([^)]*\) |RONDE_\w+ )?([\w:]+)[^;]*?\{", re.MULTILINE
)
PARTS = ("core", "ops", "backends", "bindings", "timeline")

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
    "asio": ("backends/net",),
    "openssl/": ("backends/net",),
    "flatbuffers/": ("core/protocol",),
    "hwy/": ("ops/kernels", "ops/compression"),
    "Eigen/": ("ops/compression",),
    "spdlog/": ("bindings/runtime",),
    "CLI/": ("bindings/cli", "tests/bindings/cli"),
    "yaml-cpp/": ("bindings/cli",),
    "nlohmann/": ("timeline", "bindings/cli", "bindings/runtime", "chaos"),
    "simdjson": ("timeline",),
    "nvtx3/": ("timeline",),
    "tensorflow/": ("bindings/tensorflow",),
    "hwloc": ("backends/shm", "bindings/cli"),
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
    if (here, there) == ("backends/nccl", "backends/cuda"):
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
        ("core/engine/engine.cc", "#include <flatbuffers/flatbuffers.h>"),
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
