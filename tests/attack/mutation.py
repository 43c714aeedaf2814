"""Changes to files that a reader must survive. Each mutator takes a random.Random and bytes, and gives bytes back."""
import gzip
import os
import re
import sqlite3
import struct
import tempfile

PLANTED_MARKUP = '<img src=x onerror=planted()>'
EDGES = ['0', '-1', '1', '9223372036854775807', '-9223372036854775808', '9223372036854775808', '18446744073709551616',
         '1e308', '1e309', '-1e400', '5e-324', '0.1', '1e18', '4294967296', '2147483648', '-0', 'NaN', 'Infinity', 'null', 'true',
         '""', '[]', '{}', '"1"', '1' * 400]
STRINGS = ['', '\\u0000', '\\u001b[2J', '\\ud800', '\\udc00\\ud800', '\\n\\r\\t', PLANTED_MARKUP, '</script><script>planted()</script>',
           "' or 1=1 --", '"; drop table x', '=1+cmd|x', '../../etc/passwd', '%n%s%x', 'a' * 70000, '\u202e\u0301' * 50, '\\uFFFF', '&amp;']
RAW = [b'\xff\xfe', b'\x80', b'\xc0\xaf', b'\xed\xa0\x80', b'\0', b'\x1b]0;x\x07', b'\r', b'\xf4\x90\x80\x80']

NUMBER = re.compile(rb'(?<=[:\[,\s=])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?')
STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')


def spot(random, data):
    return random.randrange(len(data) + 1)


def piece(random, data, longest=2000):
    start = spot(random, data)
    return start, min(len(data), start + random.randrange(1, longest))


def one_of(random, pattern, data):
    """A match of the pattern near a random place; None: there is none."""
    at = pattern.search(data, random.randrange(len(data) + 1)) if data else None
    return at or pattern.search(data)


def edge_number(random, data):
    at = one_of(random, NUMBER, data)
    return data if at is None else data[:at.start()] + random.choice(EDGES).encode() + data[at.end():]


def hostile_string(random, data):
    at = one_of(random, STRING, data)
    if at is None:
        return data
    text = random.choice(STRINGS).encode()
    if random.random() < 0.3:
        text = random.choice(RAW)
    keep = at.group(1) if random.random() < 0.3 else b''
    return data[:at.start()] + b'"' + keep + text + b'"' + data[at.end():]


def swapped_strings(random, data):
    a, b = one_of(random, STRING, data), one_of(random, STRING, data)
    if a is None or b is None or a.end() > b.start():
        return data
    return data[:a.start()] + b.group() + data[a.end():b.start()] + a.group() + data[b.end():]


def cut(random, data):
    return data[:spot(random, data)]


def headless(random, data):
    return data[spot(random, data):]


def hole(random, data):
    start, end = piece(random, data)
    return data[:start] + data[end:]


def repeated(random, data):
    start, end = piece(random, data)
    return data[:end] + data[start:end] * random.choice((1, 3, 50)) + data[end:]


def flipped(random, data):
    changed = bytearray(data)
    for _ in range(random.choice((1, 4, 64))):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def edge_bytes(random, data):
    changed = bytearray(data)
    if len(changed) > 8:
        at = random.randrange(len(changed) - 8)
        changed[at:at + 8] = struct.pack('<q', random.choice((0, -1, 1, 2**63 - 1, -2**63, 2**32, 2**31)))
    return bytes(changed)


def raw_bytes(random, data):
    at = spot(random, data)
    return data[:at] + random.choice(RAW) + data[at:]


def moved_line(random, data):
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    lines.insert(random.randrange(len(lines)), lines.pop(random.randrange(len(lines))))
    return b''.join(lines)


def doubled(random, data):
    return data + data


ANY = [edge_number, hostile_string, swapped_strings, cut, headless, hole, repeated, flipped, edge_bytes, raw_bytes, moved_line, doubled]


# Layers around a file: what is inside changes, and the layer stays good or does not.

def packed(random, data):
    whole = gzip.compress(data, 1)
    choice = random.random()
    if choice < 0.5:
        return whole
    return cut(random, whole) if choice < 0.75 else flipped(random, whole) if choice < 0.9 else whole + whole


# Recordings: rows change and the checksum of their chunk is right.

def crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


TABLE = crc32c_table()
CHUNK = struct.Struct('<4sHHII')   # magic, kind, reserved, bytes of the body, checksum of what stands before it and the body


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def chunk(kind, body):
    head = CHUNK.pack(b'PGCK', kind, 0, len(body), 0)[:12]
    return head + struct.pack('<I', crc32c(head + body)) + body


def chunks(data):
    at, all_ = 16, []
    while at + CHUNK.size <= len(data):
        magic, kind, _, length, _ = CHUNK.unpack_from(data, at)
        if magic != b'PGCK':
            break
        at += CHUNK.size
        all_.append((kind, data[at:at + length]))
        at += length
    return all_


def wrong_rows(random, data):
    """Rows of some chunks change, or chunks their place, and every checksum is right."""
    all_ = chunks(data)
    if not all_:
        return flipped(random, data)
    for _ in range(random.choice((1, 3, 10))):
        at = random.randrange(len(all_))
        kind, body = all_[at]
        choice = random.random()
        if choice < 0.1:
            all_.append(all_.pop(at))
        elif choice < 0.2:
            all_.insert(random.randrange(len(all_)), (kind, body))
        elif choice < 0.3:
            all_[at] = (random.choice((1, 2, 3, 4, 5, 16, 19, 25, 28, 34, 99)), body)
        elif body:
            changed = bytearray(body)
            for _ in range(random.choice((1, 4, 16))):
                changed[random.randrange(len(changed))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            all_[at] = (kind, bytes(changed))
    return data[:16] + b''.join(chunk(kind, body) for kind, body in all_)


# SQLite exports: cells and schemas change, or pages.

def wrong_cells(random, data):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'x.sqlite')
        with open(path, 'wb') as file:
            file.write(data)
        db = sqlite3.connect(path)
        try:
            names = [row[0] for row in db.execute("select name from sqlite_master where type = 'table'")]
            for _ in range(random.choice((1, 3)) if names else 0):
                table = random.choice(names)
                columns = [row[1] for row in db.execute(f'pragma table_info("{table}")')]
                column = random.choice(columns)
                value = random.choice((None, 0, -1, 2**63 - 1, -2**63, 1e308, 'text', PLANTED_MARKUP, '\x1b[2J', b'\xff\x00', "'; drop"))
                change = random.choice((f'update "{table}" set "{column}" = ?', f'update "{table}" set "{column}" = ? where rowid % 3 = 0'))
                if random.random() < 0.2:
                    db.execute(f'alter table "{table}" rename column "{column}" to "x{random.randrange(9)}"')
                else:
                    db.execute(change, (value,))
                if random.random() < 0.2:
                    db.execute(f'insert into "{table}" select * from "{table}"')
            db.commit()
        except (sqlite3.Error, UnicodeDecodeError):   # messages of SQLite quote what is damaged
            pass   # a constraint: the file stays as far as it came
        db.close()
        with open(path, 'rb') as file:
            return file.read()


# Pickles: what they hold changes, or their opcodes.

OPCODES = [b'c os\nsystem\n', b'cos\nsystem\n(S\'true\'\ntR', b'R', b'i', b'o', b'\x81', b'\x92', b'\x93', b'Q', b'P0\n', b'\x82\x01', b'.', b'0', b'2', b'(',
           b't', b'l', b'd', b'}', b']', b's', b'u', b'a', b'e', b'b', b'h\xff', b'j\xff\xff\xff\x7f', b'\x94', b'\x8d\xff\xff\xff\xff\xff\xff\xff\x7f',
           b'\x8b\xff\xff\xff\x7f', b'\x95\xff\xff\xff\xff\xff\xff\xff\xff', b'I99999999999999999999\n', b'F1e999\n']


def wrong_opcodes(random, data):
    for _ in range(random.choice((1, 2, 8))):
        at = spot(random, data)
        data = data[:at] + random.choice(OPCODES) + data[at + random.randrange(3):]
    return data
