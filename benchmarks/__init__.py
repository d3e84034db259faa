"""Measurements, run by hand: `make bench`. Not tests: a figure depends on the machine."""
