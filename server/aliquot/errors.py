"""Server errors: failures that are reported to the operator and never sent to clients."""


class ServerError(Exception):
    """A failure for the operator; the message is meant to be read."""


class ConfigurationError(ServerError):
    """A setting, a flag or a file is wrong; the message says which one and what would be right."""
