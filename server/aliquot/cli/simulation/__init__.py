"""What `aliquot simulate` reads, runs and shows."""
