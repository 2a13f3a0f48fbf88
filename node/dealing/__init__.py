"""From a configuration and its data to a run's folder. Imports `traffic` and below."""
