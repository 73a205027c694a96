"""Delivery: how notices reach people: webhooks, chats and e-mail."""
