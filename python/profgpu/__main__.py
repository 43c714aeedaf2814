"""``python -m profgpu`` is the command line: the program takes this process's place."""
import os
import sys

from ._library import ProfgpuError, program_path


def main() -> None:
    try:
        path = program_path()
    except ProfgpuError as error:
        sys.exit("profgpu: %s" % error)
    sys.stdout.flush()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
