"""The job that this process is in: its place there, its process sets, its timeline and counters."""
