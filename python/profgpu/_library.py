"""libprofgpu.so through ctypes: declarations of include/profgpu/c.h, its texts and its errors.

The library is opened at the first call that needs it, so that importing profgpu costs next to nothing.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

C_VERSION = 1
_FOLDER = os.path.dirname(os.path.abspath(__file__))

Path = Union[str, "os.PathLike[str]"]
Options = Sequence[Tuple[str, str]]


class ProfgpuError(RuntimeError):
    """What could not be done and why; ``hint`` is what to try next, and may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message + ("\n  hint: " + hint if hint else ""))
        self.message = message
        self.hint = hint


class Given(ctypes.Structure):
    """profgpu_string, as it is passed in."""

    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Borrowed(ctypes.Structure):
    """profgpu_string, as it comes back: the library's memory."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    def text(self) -> str:
        if not self.data:
            return ""
        return ctypes.string_at(self.data, self.size).decode("utf-8", "replace")


class Option(ctypes.Structure):
    _fields_ = [("name", Given), ("value", Given)]


class Column(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", Borrowed),
        ("unit", Borrowed),
        ("meaning", Borrowed),
        ("type", ctypes.c_int32),
        ("length", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("valid", ctypes.c_void_p),
        ("dictionary_size", ctypes.c_size_t),
        ("dictionary_text", ctypes.c_void_p),
        ("dictionary_offsets", ctypes.POINTER(ctypes.c_uint64)),
    ]


class MonitorOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("devices", ctypes.POINTER(Given)),
        ("device_count", ctypes.c_size_t),
        ("interval_s", ctypes.c_double),
        ("backend", Given),
        ("warmup_s", ctypes.c_double),
        ("keep_samples", ctypes.c_size_t),
    ]


def given(text: str) -> Given:
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "replace")
    return Given(data, len(data))


_P, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_OUT = ctypes.POINTER(ctypes.c_void_p)
_INPUT = [ctypes.POINTER(Given), _SIZE, ctypes.POINTER(Option), _SIZE, _OUT]
_FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "profgpu_c_version": (ctypes.c_uint32, []),
    "profgpu_version": (Borrowed, []),
    "profgpu_error_message": (Borrowed, [_P]),
    "profgpu_error_hint": (Borrowed, [_P]),
    "profgpu_error_free": (None, [_P]),
    "profgpu_text_view": (Borrowed, [_P]),
    "profgpu_text_free": (None, [_P]),
    "profgpu_analyze": (_P, _INPUT),
    "profgpu_report_write": (_P, [_P, Given, ctypes.POINTER(Option), _SIZE, _OUT]),
    "profgpu_report_free": (None, [_P]),
    "profgpu_open": (_P, _INPUT),
    "profgpu_run_free": (None, [_P]),
    "profgpu_table_name": (Borrowed, [_SIZE]),
    "profgpu_run_table": (_P, [_P, Given, _OUT]),
    "profgpu_run_query": (_P, [_P, Given, _OUT]),
    "profgpu_table_rows": (_SIZE, [_P]),
    "profgpu_table_columns": (_SIZE, [_P]),
    "profgpu_table_column": (ctypes.c_int, [_P, _SIZE, ctypes.POINTER(Column)]),
    "profgpu_table_free": (None, [_P]),
    "profgpu_monitor_open": (_P, [ctypes.POINTER(MonitorOptions)]),
    "profgpu_monitor_problem": (Borrowed, [_P]),
    "profgpu_monitor_start": (None, [_P]),
    "profgpu_monitor_mark": (None, [_P, Given]),
    "profgpu_monitor_stop": (None, [_P]),
    "profgpu_monitor_summary": (_P, [_P]),
    "profgpu_monitor_summary_text": (_P, [_P]),
    "profgpu_monitor_samples": (_P, [_P]),
    "profgpu_monitor_free": (None, [_P]),
}
# These return at once: giving up Python's lock would cost more than the call.
_QUICK: Dict[str, Tuple[Any, List[Any]]] = {
    "profgpu_range_push": (None, [Given]),
    "profgpu_range_pop": (None, []),
    "profgpu_step_push": (None, [ctypes.c_int64]),
    "profgpu_range_mark": (None, [Given]),
    "profgpu_is_recorded": (ctypes.c_int, []),
}


def _first_file(*paths: str) -> str:
    for path in paths:
        if path and os.path.exists(path):
            return path
    raise ProfgpuError(
        "profgpu's native part is not installed: none of " + ", ".join(p for p in paths if p),
        "pip install . builds it; PROFGPU_LIBRARY and PROFGPU name one that is built elsewhere",
    )


def library_path() -> str:
    """libprofgpu.so: PROFGPU_LIBRARY, else the package's own."""
    return _first_file(os.environ.get("PROFGPU_LIBRARY", ""), os.path.join(_FOLDER, "core", "lib", "libprofgpu.so"))


def program_path() -> str:
    """The program profgpu: PROFGPU, else the package's own."""
    return _first_file(os.environ.get("PROFGPU", ""), os.path.join(_FOLDER, "core", "bin", "profgpu"))


class Library:
    """The functions of both tables above, by name."""

    def __init__(self, path: str) -> None:
        self.path = path
        for table, loaded in ((_FUNCTIONS, ctypes.CDLL(path)), (_QUICK, ctypes.PyDLL(path))):
            for name, (result, arguments) in table.items():
                function = getattr(loaded, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
        version = self.profgpu_c_version()
        if version != C_VERSION:
            raise ProfgpuError("%s has version %d of the C interface, and this package needs %d" % (path, version, C_VERSION))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


_loaded: Optional[Library] = None


def library() -> Library:
    global _loaded
    if _loaded is None:
        _loaded = Library(library_path())
    return _loaded


def take_text(handle: Optional[int]) -> str:
    """The text of a profgpu_text, which is freed."""
    lib = library()
    try:
        text: str = lib.profgpu_text_view(handle).text()
        return text
    finally:
        lib.profgpu_text_free(handle)


def raise_error(error: ctypes.c_void_p) -> None:
    """Raises the error in a profgpu_error, and frees it."""
    lib = library()
    message, hint = lib.profgpu_error_message(error).text(), lib.profgpu_error_hint(error).text()
    lib.profgpu_error_free(error)
    raise ProfgpuError(message, hint)


def checked(function: Any, *arguments: Any) -> int:
    """What `function` returns; what it reports as an error is raised."""
    error = ctypes.c_void_p()
    handle = function(*arguments, ctypes.byref(error))
    if not handle:
        raise_error(error)
    return int(handle)


def option_array(options: Options) -> Any:
    return (Option * len(options))(*[Option(given(name), given(value)) for name, value in options])


def path_list(paths: Union[Path, Iterable[Path]]) -> List[str]:
    try:
        return [os.fsdecode(path) for path in ([paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths)]
    except TypeError:
        raise TypeError("a path or several of them, not %r" % (paths,)) from None


def input_arguments(paths: Sequence[str], options: Options) -> List[Any]:
    """Paths and options as profgpu_analyze() and profgpu_open() take them."""
    names = [given(path) for path in paths]
    return [(Given * len(names))(*names), len(names), option_array(options), len(options)]
