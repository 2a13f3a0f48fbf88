"""Network conditions and the choice of the agents that a fault hits, as functions of a seed."""
