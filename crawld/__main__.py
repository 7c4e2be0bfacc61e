"""Lets `python -m crawld` do what the console script does."""

from crawld.cli import main

if __name__ == "__main__":
    main()
