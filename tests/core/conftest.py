"""The profiles of examples, for more and for less than usual; see `core_effort`."""

from core_effort import register_profiles

register_profiles()
