"""ZeroMQ: the sockets of one agent, admission by key, names that move. Imports `folder` and below."""
