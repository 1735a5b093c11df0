"""`python -m thinwire` is the command line."""

import sys

from thinwire.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
