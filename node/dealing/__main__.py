"""``python -m node.dealing FOLDER [--force]``: dealing is a process of its own.

The configuration comes on standard input, the manifest goes to standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.plug_ins import end_errors_with_one_line, find_here, message_of
from node.processes import end_with_parent, keep_private


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m node.dealing FOLDER [--force]``: the configuration on standard input, the manifest on output.

    Exit status 2 with one line on standard error for bad input.
    """
    parser = argparse.ArgumentParser(prog="python -m node.dealing")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--force", action="store_true")
    options = parser.parse_args(arguments)
    find_here()
    end_errors_with_one_line()
    try:
        manifest = deal_run(from_table(tomllib.loads(sys.stdin.read())), options.folder, force=options.force)
    except ValueError as error:
        print(message_of(error), file=sys.stderr)
        return 2
    except OSError as error:
        print(f"run folder {options.folder}: {error.strerror}: {error.filename or options.folder}", file=sys.stderr)
        return 2
    print(json.dumps(manifest.to_json(), allow_nan=False))
    return 0


if __name__ == "__main__":
    keep_private()
    end_with_parent()
    sys.exit(main())
