"""The runtime under every agent: it records what a turn does, and goes the same way again from its journal."""
