"""The graph of neighbours: families, weights, spectra, graph files. Imports no other package of the product."""
