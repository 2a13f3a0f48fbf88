"""Datasets, one loader a file, and how they are dealt to agents."""
