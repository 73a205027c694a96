"""Billing: statements, estimates and fair shares for people."""
