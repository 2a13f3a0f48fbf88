"""A run's folder: one kind of file a module, the reader beside the writer.

Imports `configuration` and the ground.
"""
