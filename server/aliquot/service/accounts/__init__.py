"""Accounts: users and keys, made and changed by admins, and looked at."""
