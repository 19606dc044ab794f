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


def check_licences(prefix, libraries):
    """There is Ronde's licence, and one for each library: by the name of its package."""
    documents = prefix / "share" / "doc" / "ronde"
    assert (documents / "copyright").read_text() == (ROOT / "LICENSE").read_text()
    named = [file.stem for file in (documents / "libraries").iterdir() if file.stat().st_size]
    for library in libraries:
        package = {"libcrypto": "libssl", "libz": "zlib1g"}.get(library, library)
        assert [name for name in named if name.startswith(package)], library


@ALL
def test_a_program_builds_against_the_unpacked_archive_and_runs(made, tmp_path):
    (archive,) = made.glob("ronde-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path)
    (prefix,) = tmp_path.glob("ronde-*")
    assert two_ranks_of_an_example(prefix, tmp_path).count("the average rank is 0.5") == 2
    linked = run("ldd", prefix / "bin" / "ronde")
    assert f"{prefix}/bin/../lib/libfmt.so" in linked
    bundled = {file.name.split(".so")[0] for file in (prefix / "lib").glob("lib*.so.*")}
    check_licences(prefix, bundled - {"libronde"})


@ALL
def test_a_program_builds_against_the_unpacked_deb_and_runs(made, tmp_path):
    (package,) = made.glob("ronde_*.deb")
    run("dpkg-deb", "-x", package, tmp_path)
    output = two_ranks_of_an_example(tmp_path / "usr", tmp_path)
    assert output.count("the average rank is 0.5") == 2
    needs = run("dpkg-deb", "-f", package, "Depends")
    assert "libfmt" in needs
    check_licences(tmp_path / "usr", ["libcli11", "libfmt", "nlohmann-json3"])
    assert "openmpi" not in needs
