"""The live page: a run, a traffic log or some endpoints in a browser, read-only and on this machine alone."""
