"""The site builds with every link whole, and its reference has every public name."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from bindings.python.public_names import names_of
from bindings.python.timelines import browser

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "python" / "ronde"
CPP_HEADERS = sorted((ROOT / "bindings" / "cpp" / "ronde").glob("*.h"))
C_HEADER = ROOT / "bindings" / "c" / "ronde_c.h"
BUILDS_ITSELF = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or shutil.which("doxygen") is None,
    reason="the site needs docs/requirements.txt and doxygen",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site's folder; the build fails on any link that leads nowhere."""
    folder = tmp_path_factory.mktemp("site")
    # Not --quiet: that drops the warnings before --strict counts them.
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def module_of(path):
    """The dotted name of a source file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def public_python_names():
    for path in sorted(PACKAGE.rglob("*.py")):
        module = module_of(path)
        if any(part.startswith("_") for part in module.split(".")):
            continue
        for name in names_of(path):
            yield f"{module}.{name}"


@BUILDS_ITSELF
def test_the_reference_has_every_public_name_of_python(site):
    inventory = (site / "objects.inv").read_bytes()
    lines = zlib.decompress(inventory[inventory.index(b"zlib.\n") + 6 :]).decode().splitlines()
    shown = {line.split()[0] for line in lines}
    wanted = list(public_python_names())
    assert len(wanted) > 300
    modules = {path.stem for path in PACKAGE.rglob("*.py")} | {"elastic"}
    missing = [name for name in wanted if name not in shown]
    assert [name for name in missing if name.split(".")[-1] not in modules] == []


def public_cpp_names():
    """Types, functions and members of the C++ headers, by their last name."""
    declared = re.compile(
        r"^(?:using|(?:  )?(?:template <.*> )?(?:struct|class|concept|enum class)) "
        r"(?:RONDE_API )?(\w+)"
    )
    called = re.compile(
        r"^(?:  )?(?:inline |static |constexpr |RONDE_API |\[\[nodiscard\]\] )*"
        r"[\w:<>]+[&*]? (\w+)\("
    )
    for header in CPP_HEADERS:
        private = False
        for line in header.read_text().splitlines():
            private = line.strip() == "private:" or (private and not line.startswith("}"))
            found = declared.match(line) or called.match(line)
            if found and not private and found[1] not in ("Impl", "impl"):
                yield found[1]


@BUILDS_ITSELF
def test_the_reference_has_every_public_name_of_cpp(site):
    page = (site / "reference" / "cpp.html").read_text()
    shown = {name.split(".")[-1] for name in re.findall(r'id="(?:\w+::)?([\w.]+)"', page)}
    wanted = set(public_cpp_names())
    assert {"Job", "allreduce_async", "dtype_of", "RankFailure", "HostsUpdated", "run"} <= wanted
    assert sorted(wanted - shown) == []


@BUILDS_ITSELF
def test_the_reference_has_every_public_name_of_c(site):
    page = (site / "reference" / "c.html").read_text()
    text = re.sub(r"/\*.*?\*/", "", C_HEADER.read_text(), flags=re.DOTALL)
    wanted = set(re.findall(r"\b(?:RONDE|ronde)_\w+", text)) - {"RONDE_C_H"}
    members = set(re.findall(r"\(\*(\w+)\)|^  [\w* ]+?(\w+);", text, re.MULTILINE))
    wanted |= {name for pair in members for name in pair if name}
    assert {"ronde_api", "RONDE_ALLREDUCE", "submit", "dtype", "ronde_c_api"} <= wanted
    assert [name for name in sorted(wanted) if not re.search(rf"\b{name}\b", page)] == []


@BUILDS_ITSELF
def test_the_reference_lists_every_option_and_setting(site):
    command = (site / "reference" / "command.html").read_text()
    assert all(option in command for option in ("--hostfile", "--peers", "--probe", "ronde bench"))
    settings = (site / "reference" / "settings.html").read_text()
    assert len(re.findall(r"<td><code>RONDE_\w+</code></td>", settings)) > 40


@BUILDS_ITSELF
@pytest.mark.skipif(browser.PROGRAM is None, reason="needs chromium")
def test_the_search_works_from_disk(site, tmp_path):
    with browser.Browser(tmp_path) as page:
        page.open((site / "guides.html").as_uri() + "?q=allreduce")
        page.wait_for("document.querySelectorAll('.md-search-result__link').length > 5")
        link = page.run("document.querySelector('.md-search-result__link').href")
    target = link.removeprefix("file://").split("#")[0].split("?")[0]
    assert Path(target).is_file()
