"""A job's secret that no user has set, and the file from which the core reads it."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path


def new_secret() -> str:
    """A job's secret: 64 hexadecimal digits."""
    return secrets.token_hex(32)


def mark_of(path: str) -> str:
    """A mark of the secret in that file, by which others can only see that theirs differs.

    Empty where there is no such file that can be read: the core says what is wrong with it.
    """
    try:
        secret = Path(path).read_bytes().strip()
    except OSError:
        return ""
    return hmac.new(secret, b"ronde secret's mark", "sha256").hexdigest()[:16]


class SecretFile:
    """A secret in a file without a name, until the next one is kept."""

    def __init__(self) -> None:
        self._descriptor = -1

    def keep(self, secret: str) -> str:
        """The path at which this process, and others of its user, find the secret."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = os.memfd_create("ronde-secret")
        os.fchmod(self._descriptor, 0o600)
        os.write(self._descriptor, secret.encode())
        # This procfs may be that of another namespace, where the process has another number.
        return f"/proc/{os.readlink('/proc/self')}/fd/{self._descriptor}"
