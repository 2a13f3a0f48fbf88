"""Figures and tables of the papers, made again beside what the papers show. Only the command line imports it."""
