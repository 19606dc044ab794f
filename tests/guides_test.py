"""Runs the programs of the guides: two ranks of one job for each page.

A block fenced as ```python is a whole program; one fenced as ```py is a part of one, and is only
parsed. Blocks of C++ are compiled, those of bash are parsed, and the options of each `ronde ...`
are looked for in its help. The README's examples are run by readme.py.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^( *)```(python|py|cpp|bash)\b[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r'^--8<-- "(.*)"$', re.MULTILINE)
COMMAND = re.compile(r"`((?:ronde|horovodrun) [^`\n]+)`")
# The first word behind Ronde's own.
ENDS = re.compile(r"--|[|;&]+|.*\.py|python|\./app")
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
# A program around a part of one in C++.
AROUND = """
#include <ronde/elastic.h>
#include <ronde/ronde.h>
#include <vector>
void compute(const std::vector<float>&, std::vector<float>&);
void update(std::vector<float>&, const std::vector<float>&);
int part(%s) {
%s
return 0;
}
"""
GIVEN = {
    "gpu.md": "ronde::Job& job, float* pointer, std::int64_t count, int device, void* stream",
    "trust.md": "ronde::Job& job, std::vector<float>& weight, std::vector<float>& momentum, "
    "int step",
}
LIMIT_S = 300
# Pages whose programs need more than two ranks of one host.
ELSEWHERE = {"clusters/ray.md": "Ray's tests", "clusters/ssh.md": "hosts that ssh reaches"}
# Runs each program in a module of its own, and ends the job that it has begun.
RUNNER = """
import runpy, sys
for program in sys.argv[1:]:
    print("program", program, flush=True)
    runpy.run_path(program, run_name="__main__")
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.destroy_process_group()
    if "ronde" in sys.modules:
        sys.modules["ronde"].shutdown()
"""


def included(place: re.Match[str]) -> str:
    """The file that the site shows in this place."""
    return (ROOT / place.group(1)).read_text()


def blocks(page: Path, fence: str) -> list[str]:
    """The page's blocks with this fence, without the page's indentation."""
    found = BLOCK.findall(INCLUDED.sub(included, page.read_text()))
    return [textwrap.dedent(text) for _, kind, text in found if kind == fence]


def pages(fence: str) -> list[str]:
    every = sorted(page for page in DOCS.rglob("*.md") if blocks(page, fence))
    return [str(page.relative_to(DOCS)) for page in every]


@pytest.mark.parametrize("name", [page for page in pages("python") if page not in ELSEWHERE])
def test_each_program_of_a_page_runs(tmp_path, name):
    programs = blocks(DOCS / name, "python")
    if any("keras" in text for text in programs) and importlib.util.find_spec("keras") is None:
        pytest.skip("TensorFlow is not installed")
    files = [tmp_path / f"block{number}.py" for number in range(len(programs))]
    for file, text in zip(files, programs):
        file.write_text(text)
    command = [sys.executable, "-m", "ronde", "run", "-np", "2", "--", sys.executable, "-c", RUNNER]
    done = subprocess.run(
        [*command, *files], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted({*pages("py"), *ELSEWHERE}))
def test_each_part_of_a_program_can_be_parsed(name):
    for text in blocks(DOCS / name, "py") + blocks(DOCS / name, "python"):
        ast.parse(text)


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
@pytest.mark.parametrize("name", [*pages("cpp"), "../README.md"])
def test_each_block_of_cpp_compiles(tmp_path, name):
    for number, text in enumerate(blocks(DOCS / name, "cpp")):
        whole = text if "int main(" in text else AROUND % (GIVEN.get(name, ""), text)
        file = tmp_path / f"block{number}.cc"
        file.write_text(whole)
        folders = [f"-I{ROOT / 'bindings' / 'cpp'}", f"-I{ROOT}"]
        done = subprocess.run(
            ["g++", "-std=c++20", "-fsyntax-only", "-Wall", *folders, file],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, text + done.stderr


@functools.cache
def options_of(program: str, *command: str) -> frozenset[str]:
    """All options in the command's help."""
    done = subprocess.run(
        [Path(sys.executable).parent / program, *command, "--help"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return frozenset(OPTION.findall(done.stdout)) if done.returncode == 0 else frozenset()


def unknown_options(line: str) -> list[str]:
    """The options in a command line of Ronde's that its help does not have."""
    words = list(itertools.dropwhile(lambda word: "=" in word, shlex.split(line, comments=True)))
    program, *words = [Path(words[0]).name, *words[1:]] if words else [""]
    if program not in ("ronde", "horovodrun"):
        return []
    mine = list(itertools.takewhile(lambda word: not ENDS.fullmatch(word), words))
    depth = 0 if program == "horovodrun" else 2 if mine[:1] == ["timeline"] else 1
    known = options_of(program, *mine[:depth])
    given = [found.group() for word in mine[depth:] if (found := OPTION.match(word))]
    return [option for option in given if option not in known]


@pytest.mark.parametrize("name", [*pages("bash"), "../README.md"])
def test_each_block_of_bash_can_be_parsed(name):
    for text in blocks(DOCS / name, "bash"):
        done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True)
        assert done.returncode == 0, text + done.stderr


def test_each_command_line_has_options_that_there_are():
    unknown = []
    history = ("measurements", "releases")
    guides = [page for page in DOCS.rglob("*.md") if page.parent.name not in history]
    for page in [*guides, ROOT / "README.md", ROOT / "CHANGELOG.md"]:
        lines = [line for text in blocks(page, "bash") for line in text.splitlines()]
        for line in [*lines, *COMMAND.findall(page.read_text())]:
            unknown += [f"{page.name}: {line}: {option}" for option in unknown_options(line)]
    assert not unknown, "\n".join(unknown)


def test_a_renamed_option_is_found():
    assert unknown_options("A=1 .venv/bin/ronde run -np 2 --minnp 1 -- train.py --x") == ["--minnp"]
    assert unknown_options("ronde timeline report trace.json --jsn | jq -r .") == ["--jsn"]
