"""The profile of examples that mutation testing goes by; see `core_effort`."""

from core_effort import register_profiles

register_profiles()
