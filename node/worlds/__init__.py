"""The worlds that agents run in: processes, the twin, containers.

Imports `agent`, `dealing`, `results`, `audit` and below.
"""
