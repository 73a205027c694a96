"""Living demo: a demo cluster with invented people, a generated week of history, and a synthetic load."""
