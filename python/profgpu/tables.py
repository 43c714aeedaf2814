"""Tables of a run and samples of a monitor: columns in the library's memory, seen without copying.

NumPy and pandas are used where they are installed. Without NumPy a column is a list.
"""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import _library

_TYPES: Dict[int, Any] = {0: ctypes.c_int64, 1: ctypes.c_double, 2: ctypes.c_int32}
_TEXT = 2
_DESCRIBED = _library.Column.data.offset  # a structure of this size asks for no values


def numpy_or_none() -> Any:
    try:
        import numpy

        return numpy
    except ImportError:
        return None


def pandas_or_none() -> Any:
    try:
        import pandas

        return pandas
    except ImportError:
        return None


class Column:
    """What a table tells about a column: ``name``, ``unit`` ("ns", "bytes", "" ...), ``meaning``, ``type``."""

    def __init__(self, described: _library.Column) -> None:
        self.name = described.name.text()
        self.unit = described.unit.text()
        self.meaning = described.meaning.text()
        self.type = ("int64", "float64", "text")[described.type]

    def __repr__(self) -> str:
        return "Column(%r, %s)" % (self.name, ", ".join(t for t in (self.type, self.unit) if t))


class Table:
    """Rows of equal shape. ``table["duration_ns"]`` is a column, ``table.to_pandas()`` a frame, iterating gives rows.

    A column of numbers is a read-only NumPy array in the library's memory, which lives as long as any such array. Where
    whole numbers are missing in some rows it is a masked array. A column of text is an array of objects, None where
    there is none.
    """

    def __init__(self, handle: int) -> None:
        lib = _library.library()
        self._handle = handle
        self._free = weakref.finalize(self, lib.profgpu_table_free, handle)
        self.columns: List[Column] = []
        self._places: Dict[str, int] = {}
        for place in range(lib.profgpu_table_columns(handle)):
            column = Column(self._column(place, _DESCRIBED))
            self._places[column.name] = place
            self.columns.append(column)

    def _column(self, place: int, size: int) -> _library.Column:
        column = _library.Column()
        column.struct_size = size
        _library.library().profgpu_table_column(self._handle, place, ctypes.byref(column))
        return column

    def __len__(self) -> int:
        return int(_library.library().profgpu_table_rows(self._handle))

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __repr__(self) -> str:
        return "<Table: %d rows of %s>" % (len(self), ", ".join(c.name for c in self.columns))

    def _values(self, name: str) -> Tuple[_library.Column, Any, Optional[Any]]:
        """The column, its values as a ctypes array, and which of them are valid."""
        if name not in self._places:
            raise KeyError("%s; there is %s" % (name, ", ".join(self._places)))
        column = self._column(self._places[name], ctypes.sizeof(_library.Column))
        n = column.length
        values = (_TYPES[column.type] * n).from_address(column.data) if n else (_TYPES[column.type] * 0)()
        values._table = self  # the memory is the table's: whoever holds a view of it holds the table
        valid = (ctypes.c_uint8 * n).from_address(column.valid) if n and column.valid else None
        if valid is not None:
            valid._table = self
        return column, values, valid

    @staticmethod
    def _dictionary(column: _library.Column) -> List[str]:
        offsets = column.dictionary_offsets
        if not column.dictionary_size:
            return []
        text = ctypes.string_at(column.dictionary_text, offsets[column.dictionary_size])
        return [text[offsets[i] : offsets[i + 1]].decode("utf-8", "replace") for i in range(column.dictionary_size)]

    def __getitem__(self, name: str) -> Any:
        numpy = numpy_or_none()
        if numpy is None:
            return self.to_list(name)
        column, values, valid = self._values(name)
        array = numpy.frombuffer(values, dtype=values._type_) if len(values) else numpy.empty(0, values._type_)
        array.flags.writeable = False
        if column.type == _TEXT:
            entries = numpy.array(self._dictionary(column) + [None], dtype=object)
            return entries[array]  # -1 is the last
        if valid is None:
            return array
        return numpy.ma.MaskedArray(array, mask=numpy.frombuffer(valid, dtype=bool) == 0, copy=False)

    def to_list(self, name: str) -> List[Any]:
        """A column as Python objects, None where there is no value. An unknown number is NaN."""
        column, values, valid = self._values(name)
        if column.type == _TEXT:
            entries: List[Optional[str]] = [*self._dictionary(column), None]
            return [entries[code] for code in values]
        if valid is None:
            return list(values)
        return [value if there else None for value, there in zip(values, valid)]

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        names = [c.name for c in self.columns]
        for row in zip(*[self.to_list(name) for name in names]):
            yield dict(zip(names, row))

    def to_pandas(self) -> Any:
        """A DataFrame: numbers share the library's memory, text is categorical, units are in ``frame.attrs["units"]``."""
        pandas, numpy = pandas_or_none(), numpy_or_none()
        if pandas is None:
            raise _library.ProfgpuError("pandas is not installed", "pip install pandas; table[name] needs none")
        series: Dict[str, Any] = {}
        for described in self.columns:
            column, values, valid = self._values(described.name)
            array = numpy.frombuffer(values, dtype=values._type_) if len(values) else numpy.empty(0, values._type_)
            if column.type == _TEXT:
                series[described.name] = pandas.Categorical.from_codes(array, self._dictionary(column))
            elif valid is not None:
                mask = numpy.frombuffer(valid, dtype=bool) == 0
                series[described.name] = pandas.arrays.IntegerArray(array, mask, copy=False)
            else:
                array.flags.writeable = False
                series[described.name] = array
        frame = pandas.DataFrame({name: pandas.Series(values, copy=False) for name, values in series.items()}, copy=False)
        frame.attrs["units"] = {c.name: c.unit for c in self.columns if c.unit}
        return frame


class Rows(List[Dict[str, Any]]):
    """Rows of a section of a report, where pandas is not installed: a list of dicts with ``column()``."""

    def column(self, name: str) -> List[Any]:
        return [row[name] for row in self]


def frame_of(rows: List[Dict[str, Any]]) -> Any:
    """A DataFrame where pandas is installed, else Rows."""
    pandas = pandas_or_none()
    return Rows(rows) if pandas is None else pandas.DataFrame(rows)
