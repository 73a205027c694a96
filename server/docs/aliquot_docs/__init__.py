"""Documentation generator: writes reference pages, tables and pictures from the code."""
