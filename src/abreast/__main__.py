"""`python -m abreast` is the command `abreast`."""

from abreast.cli import main

if __name__ == "__main__":
    main()
