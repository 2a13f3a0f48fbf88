"""What theorems predict for a run: convergence, privacy design, staleness."""
