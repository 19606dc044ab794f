"""`python -m ronde ...` is `ronde ...`."""

from ronde._command import main

main()
