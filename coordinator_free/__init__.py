"""The mathematics: losses, agents, mechanisms, accounting, attacks, and the in-process twin.

Nothing here touches a socket, a file, the wall clock, a process, the environment or global random state:
everything a function needs is an argument.
"""
