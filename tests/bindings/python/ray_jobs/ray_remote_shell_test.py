"""The program that stands in for ssh on Ray; it needs no Ray itself."""

import contextlib
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import ronde

SHELL = Path(ronde.__file__).parent / "ray" / "_remote_shell.py"
LIMIT_S = 60


@contextlib.contextmanager
def connected():
    """The program, started for the host n1, and the executor's end of its connection."""
    with (
        tempfile.TemporaryDirectory(prefix="rr-") as folder,  # a socket's path is short
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = f"{folder}/relay"
        listener.bind(path)
        listener.listen()
        listener.settimeout(LIMIT_S)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-I", "-S", SHELL, path, "n1", "ronde run-agent"]
        with subprocess.Popen(command, **pipes) as shell:
            try:
                connection, _ = listener.accept()
                connection.settimeout(LIMIT_S)
                with connection:
                    yield shell, connection
            finally:
                shell.kill()


def test_bytes_go_both_ways_until_the_launcher_ends():
    with connected() as (shell, connection):
        lines = connection.makefile("rb")
        assert lines.readline() == b"n1\n"
        connection.sendall(b"greeting\n")
        assert shell.stdout.readline() == b"greeting\n"
        shell.stdin.write(b"start\n")
        shell.stdin.flush()
        assert lines.readline() == b"start\n"
        shell.stdin.close()
        assert lines.read() == b""
        assert shell.wait(LIMIT_S) == 0


def test_the_status_is_sshs_when_the_executor_ends_the_connection():
    with connected() as (shell, connection):
        connection.close()  # the host's name is unread: the program may see a reset
        assert shell.wait(LIMIT_S) == 255
        assert shell.stderr.read() == b""
