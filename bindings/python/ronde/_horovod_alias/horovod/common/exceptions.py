"""Horovod's names of Ronde's errors."""

from ronde import Error as HorovodInternalError
from ronde import VersionMismatchError as HorovodVersionMismatchError

__all__ = ["HorovodInternalError", "HorovodVersionMismatchError"]
