"""Stands in for ssh under `ronde run`: passes bytes between it and the executor.

usage: python -I -S _remote_shell.py SOCKET HOST COMMAND

The executor listens on SOCKET, a Unix socket. It starts the agent of HOST by itself. Uses the
standard library alone, as it starts often. The status is 0 where the launcher has ended the
connection, 255 where the executor has, as ssh's.
"""

import contextlib
import os
import socket
import sys
import threading

PIECE = 1 << 16


def pass_on(connection: socket.socket) -> None:
    """Standard input to the executor, and its end. main() sees the executor's end."""
    with contextlib.suppress(ConnectionError):
        while piece := os.read(0, PIECE):
            connection.sendall(piece)
        os._exit(0)


def main(path: str, host: str) -> int:
    """Returns where the executor has closed the connection."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    with contextlib.suppress(ConnectionError):
        connection.sendall(host.encode() + b"\n")
        threading.Thread(target=pass_on, args=(connection,), daemon=True).start()
        while piece := connection.recv(PIECE):
            written = 0
            while written < len(piece):
                written += os.write(1, piece[written:])
    return 255


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:3]))
