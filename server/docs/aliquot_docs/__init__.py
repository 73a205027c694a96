"""The generator of the documentation: what can be read from the code is written from the code."""
