"""What the eavesdropper could have learned, and the execution of a run again. Imports `traffic` and below."""
