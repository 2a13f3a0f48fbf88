"""Mechanisms, their noise, accounting, allocation of a budget, and the ledger's rules."""
