"""Helpers of Horovod's runner."""
