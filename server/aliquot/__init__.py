"""Aliquot shares the GPUs of a cluster among people."""
