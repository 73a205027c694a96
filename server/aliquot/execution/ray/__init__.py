"""Agents on the nodes of a Ray cluster. Only what runs in the gateway's process imports Ray."""
