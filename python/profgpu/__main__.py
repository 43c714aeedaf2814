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


def gate() -> None:
    """``profgpu-gate``: the script of deploy/ci, with this package's program unless PROFGPU names another one."""
    try:
        program = program_path()
    except ProfgpuError as error:
        sys.exit("profgpu-gate: %s" % error)
    script = os.path.join(os.path.dirname(program), "profgpu-gate")
    if not os.path.isfile(script):
        sys.exit("profgpu-gate: %s is not there" % script)
    os.execve(script, [script, *sys.argv[1:]], {**os.environ, "PROFGPU": program})


if __name__ == "__main__":
    main()
