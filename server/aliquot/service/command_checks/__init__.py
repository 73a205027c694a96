"""Command checks: what an operator does not want to be submitted. They keep nobody from anything a job can do."""
