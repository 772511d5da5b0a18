"""Run the command line as `python -m capplan.cli`."""

from capplan.cli import main

if __name__ == "__main__":
    main()
