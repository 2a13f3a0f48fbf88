"""Averages of all agents in synchronous rounds (paper 003 and private gradient descent)."""
