"""Moving an installation from one database to another, as one file."""
