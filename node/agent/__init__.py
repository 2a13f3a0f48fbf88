"""One agent's process, from readiness to farewell. Imports `traffic` and below."""
