"""The REST face: a thin layer over the use cases, for scripts and for what expects one. JSON in and out."""
