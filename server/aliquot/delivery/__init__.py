"""Delivery: sends notices by webhook, chat and e-mail."""
