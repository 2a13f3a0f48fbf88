"""Runs on a Ray cluster: one host a node."""
