"""The outside world: processes, sockets, clocks, files, configuration, command line."""
