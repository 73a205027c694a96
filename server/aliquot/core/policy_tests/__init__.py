"""Policy tests: given-when-then scenarios that check a policy before it is applied."""
