"""docker/build.sh: two ranks train in a container of its image, as a user who is not root."""

from __future__ import annotations

import functools
import os
import shutil

import pytest
from packages import ROOT, run
from support.volume import ALL

TRAINING = ("ronde", "run", "-np", "2", "--", "python", "examples/train_digits.py")


def test_the_script_says_how_it_is_used():
    assert "--tag NAME" in run("bash", ROOT / "docker" / "build.sh", "--help")


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Runs a command whose images are in a storage of this test alone."""
    if os.geteuid() != 0:
        pytest.skip("chroot isolation needs root")
    folder = tmp_path_factory.mktemp("storage")
    settings = folder / "storage.conf"
    settings.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'
    )
    own = {"CONTAINERS_STORAGE_CONF": str(settings), "TMPDIR": str(folder)}  # the compiler's cache
    inside = functools.partial(run, env={**os.environ, **own})
    yield inside
    if shutil.which("buildah"):
        inside("buildah", "rm", "--all")
        inside("buildah", "rmi", "--all", "--force")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def in_container(storage):
    """Runs a command in a container of the image that the script makes."""
    storage("bash", ROOT / "docker" / "build.sh", "--tag", "ronde-test")
    container = storage("buildah", "from", "ronde-test").strip()
    return functools.partial(storage, "buildah", "run", "--isolation", "chroot", container, "--")


@ALL
def test_two_ranks_train_in_a_container_without_root(in_container):
    assert in_container("id", "-un") == "ronde\n"
    output = in_container(*TRAINING, "--target", "0.95")
    assert "epoch 8: loss" in output


@ALL
def test_the_image_has_no_compiler_and_no_file_of_the_build(in_container):
    names = in_container("sh", "-c", "ls -A / /tmp; command -v g++ gcc cmake || true").split()
    assert "ronde" not in names
    assert "wheel" not in names
    assert not [name for name in names if name.startswith("/usr/bin")]
