"""The TOML file of a run: its sections, what is refused and how, and how it is written back.

Imports only the ground modules of `node`.
"""
