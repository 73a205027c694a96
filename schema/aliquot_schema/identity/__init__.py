"""Accounts, roles, access rights and secrets."""
