"""Elastic training: commits, checkpoints, and the loop that goes on after failures."""
