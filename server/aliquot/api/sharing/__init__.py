"""Sharing of subscriptions: what many ask for alike is executed and encoded once, and given to all of them."""
