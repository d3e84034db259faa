"""`python -m hitl`, the same as the console script `hitl`."""

from hitl.cli import main

if __name__ == "__main__":
    main()
