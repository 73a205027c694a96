"""Notices: alerts are opened and closed by rules, and receivers and owners hear of what happens."""
