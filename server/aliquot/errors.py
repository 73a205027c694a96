"""Failures that never leave the server."""


class ServerError(Exception):
    """Something that an operator has to know, in words."""


class ConfigurationError(ServerError):
    """A setting, a flag or a file is wrong; the message says which and what would be right."""
