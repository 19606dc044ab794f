"""Faults for rehearsals of detectors: a flipped bit, in this process or in another one's memory."""

from __future__ import annotations

import contextlib
import re

import torch

_MOST_BYTES = 1 << 30  # larger areas are reserved and hardly used


def flip(tensor, element, bit):
    """Flips one bit of an element, counted from its lowest."""
    whole = tensor.detach().view(-1)
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[whole.element_size()]
    info = torch.iinfo(kind)
    whole.view(kind)[element] ^= 1 << bit if 1 << bit <= info.max else info.min


def flip_outside(pid, pattern, offset, bit):
    """Flips a bit of the byte `offset` bytes after a pattern in another process, as a debugger.

    Returns the number of places that had the pattern; all of them are changed.
    """
    found = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", 0) as memory:
        for line in maps:
            place = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if not place or " /dev/" in line:
                continue
            start, end = (int(part, 16) for part in place.groups())
            if end - start <= _MOST_BYTES:
                with contextlib.suppress(OSError):  # the process has given it back meanwhile
                    found += _flip_within(memory, start, end, pattern, offset, bit)
    return found


def _flip_within(memory, start, end, pattern, offset, bit):
    memory.seek(start)
    held = memory.read(end - start)
    found = 0
    at = held.find(pattern)
    while at >= 0:
        memory.seek(start + at + offset)
        (before,) = memory.read(1)
        memory.seek(start + at + offset)
        memory.write(bytes([before ^ (1 << bit)]))
        found += 1
        at = held.find(pattern, at + 1)
    return found
