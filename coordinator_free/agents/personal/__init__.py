"""A model of its own for each agent, kept close to its neighbours' (paper 004)."""
