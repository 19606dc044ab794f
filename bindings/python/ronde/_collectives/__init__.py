"""Collectives over any framework's tensors, and those over arrays and objects."""
