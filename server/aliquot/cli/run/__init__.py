"""`aliquot run`: sessions from a file."""
