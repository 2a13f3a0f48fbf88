"""The traffic log: the eavesdropper that writes it, its format, and what reads it.

Imports `sockets`, `faults`, `data` and below.
"""
