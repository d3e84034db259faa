"""Faults: processes that are killed, stopped or die at a chosen place, races, and rules that are left out."""
