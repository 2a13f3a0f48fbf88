"""The ADMM family: rounds in which neighbours agree on one model (papers 000, 001, 002)."""
