"""Averages and sums over all agents without a server: everything is said to neighbours, on any connected graph."""
