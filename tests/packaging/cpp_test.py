"""packaging/cpp.sh: a small program builds against what it makes, and runs; the script's usage."""

from __future__ import annotations

import shutil
import tarfile

import pytest
from packages import ROOT, run
from support.volume import ALL

CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(app CXX)
find_package(ronde CONFIG REQUIRED)
add_executable(app main.cc)
target_link_libraries(app PRIVATE ronde::ronde)
"""


def test_the_script_says_how_it_is_used():
    assert "--output DIR" in run("bash", ROOT / "packaging" / "cpp.sh", "--help")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of what the script makes of this source tree."""
    folder = tmp_path_factory.mktemp("packages")
    run("bash", ROOT / "packaging" / "cpp.sh", "--output", folder)
    return folder


def two_ranks_of_an_example(prefix, folder):
    """Builds the first example against the installation in `prefix`; returns what two ranks say."""
    source = folder / "app"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(CMAKE)
    shutil.copy(ROOT / "examples" / "01_allreduce.cc", source / "main.cc")
    run("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", source / "build")
    return run(prefix / "bin" / "ronde", "run", "-np", "2", source / "build" / "app")


@ALL
def test_a_program_builds_against_the_unpacked_archive_and_runs(made, tmp_path):
    (archive,) = made.glob("ronde-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path)
    (prefix,) = tmp_path.glob("ronde-*")
    assert two_ranks_of_an_example(prefix, tmp_path).count("the average rank is 0.5") == 2
    linked = run("ldd", prefix / "bin" / "ronde")
    assert f"{prefix}/bin/../lib/libfmt.so" in linked


@ALL
def test_a_program_builds_against_the_unpacked_deb_and_runs(made, tmp_path):
    (package,) = made.glob("ronde_*.deb")
    run("dpkg-deb", "-x", package, tmp_path)
    output = two_ranks_of_an_example(tmp_path / "usr", tmp_path)
    assert output.count("the average rank is 0.5") == 2
    needs = run("dpkg-deb", "-f", package, "Depends")
    assert "libfmt" in needs
    assert "openmpi" not in needs
