"""The web inbox in a real browser, against real servers and agents."""
