"""All agents in one process on a virtual clock: a run, and a run executed again."""
