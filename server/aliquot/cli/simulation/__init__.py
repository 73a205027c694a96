"""Simulation: input, comparison rows and output of `aliquot simulate`."""
