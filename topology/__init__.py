"""Who may talk to whom: graphs, weights, spectra, graph files."""
