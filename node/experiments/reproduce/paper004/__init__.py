"""Bellet, Guerraoui, Taziki and Tommasi (AISTATS 2018): figures 1 to 4 and table 1, one module each."""
