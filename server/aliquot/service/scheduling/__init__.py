"""Scheduling: the allocator loop, application of plans, and dispatch of orders to agents."""
