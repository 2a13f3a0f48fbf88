"""Learning problems: losses, local problems, exact solvers, baselines."""
