"""Many runs: trials, comparisons, tuning, the papers' figures. Imports `worlds` and below."""
