"""Averages and sums over all agents without a server: agents send to their neighbours only, on any connected graph."""
