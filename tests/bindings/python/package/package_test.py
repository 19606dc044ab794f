"""The extension module: it serves every framework, and so links none."""

import re
import subprocess


def test_the_extension_links_no_framework():
    import ronde._core

    needed = subprocess.run(
        ["readelf", "-d", ronde._core.__file__], capture_output=True, text=True, check=True
    ).stdout
    libraries = re.findall(r"NEEDED.*\[(.*?)\]", needed)
    assert libraries
    assert not [name for name in libraries if re.search("torch|tensorflow|mpi|python", name)]
