"""The program that starts kernels. It needs the standard library alone, and is run as a folder, not imported."""
