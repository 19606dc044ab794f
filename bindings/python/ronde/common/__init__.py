"""Horovod's package of what its APIs share: exceptions and elastic states."""
