"""What theorems say about a run: convergence, privacy design, staleness."""
