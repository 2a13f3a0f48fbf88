"""What a run gave its agents: scores, tables, pictures, predictions. Imports `traffic` and below."""
