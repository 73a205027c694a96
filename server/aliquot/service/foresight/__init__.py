"""Foresight: forecasts of starts, made in a process of their own, recorded and scored against what happened."""
