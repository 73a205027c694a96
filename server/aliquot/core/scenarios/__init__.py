"""Scenarios: what a policy is to do, written as given, when and then by the people whose policy it is."""
