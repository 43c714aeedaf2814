"""Rows of a recording (.pgt), without a program of ours: docs/recording-format.md says what the bytes mean. What cannot be
read ends the reading, as where a process was killed while it wrote."""
import collections
import struct

FILE_HEADER, CHUNK_HEADER, BODY_HEADER = 16, struct.Struct('<IHHII'), struct.Struct('<IIqq')
CHUNK_MAGIC = 0x4b434750
CONSTANT, PLAIN, ZIGZAG, DELTA, BYTES = range(5)
# Of each kind that is looked at: its name and its first columns.
KINDS = {
    1: ('end', ()),
    3: ('property', ('key$', 'value$')),
    16: ('kernel', ('start_ns', 'duration_ns', 'name$', 'queue', 'correlation')),
    17: ('copy', ('start_ns', 'duration_ns', 'bytes', 'queue', 'correlation', 'copy_kind')),
    18: ('set', ('start_ns', 'duration_ns', 'bytes')),
    19: ('call', ('start_ns', 'duration_ns', 'name$', 'thread', 'correlation', 'is_driver', 'result')),
    20: ('sync', ('start_ns', 'duration_ns')),
    21: ('overhead', ('start_ns', 'duration_ns')),
    22: ('allocation', ('time_ns', 'address', 'bytes', 'queue', 'correlation', 'is_free')),
    23: ('graph_launch', ('start_ns', 'duration_ns')),
    24: ('external_id', ()),
    25: ('range_event', ('time_ns', 'thread', 'name$', 'domain$', 'category', 'op')),
    26: ('collective', ()),
    32: ('drop', ('time_ns', 'of', 'reason', 'count')),
    33: ('window', ('time_ns', 'event', 'reason$')),
    34: ('note', ('time_ns', 'severity', 'text$')),
}
STRINGS = 2


def chunks(path):
    """(kind, rows, body) of each."""
    with open(path, 'rb') as f:
        data = f.read()
    at = FILE_HEADER
    while at + CHUNK_HEADER.size <= len(data):
        magic, kind, _, length, _ = CHUNK_HEADER.unpack_from(data, at)
        at += CHUNK_HEADER.size
        if magic != CHUNK_MAGIC or at + length > len(data):
            return
        rows = BODY_HEADER.unpack_from(data, at)[0] if length >= BODY_HEADER.size else 0
        yield kind, rows, data[at + BODY_HEADER.size:at + length]
        at += length


def varint(data, at):
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def values(encoding, data, rows):
    if encoding == BYTES:
        return data
    out, at, before = [], 0, 0
    while at < len(data):
        value, at = varint(data, at)
        if encoding != PLAIN:
            value = (value >> 1) ^ -(value & 1)
        if encoding == DELTA:
            value = before = before + value
        out.append(value)
    return out * rows if encoding == CONSTANT else out


def columns(body, rows, most):
    out, at = [], 0
    while at < len(body) and len(out) < most:
        encoding = body[at]
        length, at = varint(body, at + 1)
        out.append(values(encoding, body[at:at + length], rows))
        at += length
    return out


def counts(path):
    """(rows of each kind, records dropped), without reading the rows: for millions of them."""
    rows_of, dropped = collections.Counter(), 0
    for kind, rows, body in chunks(path):
        name = KINDS.get(kind, (str(kind),))[0]
        rows_of[name] += rows
        if name == 'drop':
            dropped += sum(columns(body, rows, 4)[3])
    return rows_of, dropped


def launches_without_kernel(path):
    """(launching calls that went well, those of them that no kernel is of), without a dict a row: for millions of them."""
    names, launched, ran = {}, {}, set()
    for kind, count, body in chunks(path):
        name = KINDS.get(kind, ('',))[0]
        if kind == STRINGS:
            ids, lengths, text = columns(body, count, 3)
            at = 0
            for number, length in zip(ids, lengths):
                names[number] = text[at:at + length]
                at += length
        elif name == 'call':
            _, _, called, _, correlations, _, results = columns(body, count, 7)
            launched.update((c, n) for c, n, result in zip(correlations, called, results) if result == 0)
        elif name == 'kernel':
            ran.update(columns(body, count, 5)[4])
    wanted = {number for number, text in names.items() if text.startswith((b'cudaLaunchKernel', b'cuLaunchKernel'))}
    launches = {c for c, n in launched.items() if n in wanted}
    return len(launches), len(launches - ran)


def rows(path, *names):
    """{kind: [row]} of the named kinds; a row is a dict."""
    out, strings = {name: [] for name in names}, {}
    for kind, count, body in chunks(path):
        if kind == STRINGS:
            at = 0
            ids, lengths, text = columns(body, count, 3)
            for number, length in zip(ids, lengths):
                strings[number] = text[at:at + length].decode(errors='replace')
                at += length
            continue
        name, wanted = KINDS.get(kind, ('', ()))
        if name not in out:
            continue
        cells = columns(body, count, len(wanted))
        for i in range(count):
            out[name].append({column.rstrip('$'): strings.get(cells[c][i]) if column.endswith('$') else cells[c][i]
                              for c, column in enumerate(wanted)})
    return out
