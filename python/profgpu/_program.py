"""The program profgpu, run for its JSON: what a call of the library has not."""
from __future__ import annotations

import json
import re
import subprocess
from typing import Any, Dict, Tuple

from . import _library

NOTHING_FOUND = 1  # the program's exit code where there is nothing to show


def run(*words: str) -> Tuple[int, str, str]:
    """The exit code and what is on standard output and on standard error."""
    done = subprocess.run(
        [_library.program_path(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def error_of(text: str) -> _library.ProfgpuError:
    """The error in the last lines of standard error: ``profgpu: stat: MESSAGE`` and its hint."""
    message, _, hint = text.strip().rpartition("\n  hint: ") if "\n  hint: " in text else (text.strip(), "", "")
    last = message.split("\n")[-1]
    return _library.ProfgpuError(re.sub(r"^profgpu: (\w+: )?", "", last) or "profgpu ended without a word", hint)


def parsed(text: str) -> Dict[str, Any]:
    found: Dict[str, Any] = json.loads(text)
    return found


def document(*words: str) -> Dict[str, Any]:
    """What a command prints with --json. Raises ProfgpuError where it prints nothing."""
    _, out, errors = run(*words, "--json")
    if not out.strip():
        raise error_of(errors)
    return parsed(out)
