"""The parts of Horovod's common package that scripts import."""
