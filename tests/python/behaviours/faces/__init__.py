"""Drivers of one common protocol (`face.py`), one for each face; `every.py` lists them."""
