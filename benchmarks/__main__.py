"""`python -m benchmarks`: everything there is to measure."""

from __future__ import annotations

from benchmarks.bench_server import main

if __name__ == "__main__":
    main()
