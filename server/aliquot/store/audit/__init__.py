"""The audit: what was done by whom, and who held which device when."""
