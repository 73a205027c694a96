"""Billing: prices of device time, entries of statements, and budgets."""
