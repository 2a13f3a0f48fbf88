"""What the theorems of the papers say about a configuration or a run. Only the command line imports it."""
