"""Network conditions and the choice of agents that a fault meets, as functions of a seed."""
