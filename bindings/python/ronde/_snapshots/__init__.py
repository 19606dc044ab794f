"""Copies of a state's values: arrays, containers, and the memory that holds them."""
