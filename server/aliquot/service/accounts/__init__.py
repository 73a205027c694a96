"""Accounts: users, API keys, secrets, identity federation, and rate limits of submissions."""
