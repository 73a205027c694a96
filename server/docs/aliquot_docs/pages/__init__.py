"""Pages and parts of pages that are written from the code."""
