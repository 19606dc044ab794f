"""A relay on the path of TCP connections: it passes bytes on, and spoils one connection's.

Run as a program in the network namespace whose connections it is to get:

    relay.py PORT HOW AFTER

Connections that leave the namespace are redirected to PORT by nftables. Each is continued to where
it was meant for. Once AFTER bytes have gone one way on one of them, HOW happens there, once:
flip (a bit), drop, replay or swap some bytes, or cut the connection. Writes "ready" and "spoiled".
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import subprocess
import sys

SO_ORIGINAL_DST = 80
MARK = 7  # of the relay's own connections, which are not redirected
PIECE = 1000
RULES = """
add table ip relay
add chain ip relay out {{ type nat hook output priority -100; }}
add rule ip relay out oifname != "lo" ip protocol tcp meta mark != {mark} redirect to :{port}
"""
HOWS = ("flip", "drop", "replay", "swap", "cut")


def spoilt(how: str, data: bytes) -> bytes:
    """Some bytes as they are after `how`."""
    piece, rest = data[:PIECE], data[PIECE:]
    if how == "flip":
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
    if how == "drop":
        return rest
    if how == "replay":
        return piece + piece + rest
    half = len(piece) // 2
    return piece[half:] + piece[:half] + rest


async def _next(reader: asyncio.StreamReader) -> bytes:
    """The next bytes; none where nothing follows soon."""
    with contextlib.suppress(asyncio.TimeoutError):
        return await asyncio.wait_for(reader.read(65536), 0.5)
    return b""


class Relay:
    """All connections that pass. Of those that carry enough, one is spoiled."""

    def __init__(self, how: str, after: int) -> None:
        self.how, self.after, self.done = how, after, False

    def _may_spoil(self, passed: int, size: int) -> bool:
        """Whether it may be this connection's turn: there is enough to spoil."""
        enough = passed >= self.after and (self.how in ("flip", "cut") or size > PIECE)
        return enough and not self.done

    def _spoils(self) -> bool:
        """Whether it is this connection's turn; only once."""
        if self.done:
            return False
        self.done = True
        print("spoiled", flush=True)
        return True

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._may_spoil(passed, len(data)):
                    # Nobody misses the last bytes, nor can tell their loss from a delay.
                    more = await _next(reader)
                    if len(more) > (PIECE if self.how == "drop" else 0) and self._spoils():
                        if self.how == "cut":
                            break
                        data = spoilt(self.how, data)
                    data += more
                passed += len(data)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Continues one connection."""
        mine = writer.get_extra_info("socket")
        meant = mine.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        port, address = struct.unpack("!2xH4s8x", meant)
        onward = socket.socket()
        onward.setblocking(False)
        onward.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        try:
            await asyncio.get_running_loop().sock_connect(onward, (socket.inet_ntoa(address), port))
        except OSError:
            onward.close()
            writer.close()
            return
        there, back = await asyncio.open_connection(sock=onward)
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))


async def main(port: int, how: str, after: int) -> None:
    """Serves until it is killed."""
    server = await asyncio.start_server(Relay(how, after).serve, "0.0.0.0", port)
    rules = RULES.format(mark=MARK, port=port)
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
