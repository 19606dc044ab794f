"""Collectives on torch's tensors."""
