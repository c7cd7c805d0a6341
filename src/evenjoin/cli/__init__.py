"""The command ``evenjoin``: one file per verb.

``main`` is the entry point of the installed script. It loads click and rich only here, so that ``import evenjoin``
never needs them, and says what to install when they are missing.

Exit codes: 0 all went well; 1 the run failed; 2 the command line is wrong; 3 the folder is damaged or no checkpoint.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from evenjoin.cli.app import evenjoin
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(f"evenjoin: the command needs {error.name}: pip install 'evenjoin[cli]'", file=sys.stderr)
        sys.exit(1)
    evenjoin(prog_name="evenjoin")
