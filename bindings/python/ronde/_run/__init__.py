"""run(): calls a function on new ranks and returns their results."""
