"""The parts of Horovod's runner that scripts import."""
