"""A network that misbehaves on purpose: links, partitions, outages, joins and leaves.

Imports `folder` and below.
"""
