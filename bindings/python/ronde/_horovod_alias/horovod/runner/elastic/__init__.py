"""The parts of Horovod's elastic runner that scripts import."""
