"""Reads the data of an HTML report, as web/README.md describes it. Standard library only."""
import base64
import gzip
import json
import re
import struct

DATA = re.compile(rb'<script type="application/octet-stream" [^>]*id="data">([A-Za-z0-9+/=]*)</script>')


class PageData:
    """`header` is the JSON; column() decodes one of its columns."""

    def __init__(self, html):
        found = DATA.search(html)
        assert found, 'the page holds no data'
        pack = gzip.decompress(base64.b64decode(found.group(1), validate=True))
        assert pack[:4] == b'PGP1'
        size, = struct.unpack('<I', pack[4:8])
        self.header = json.loads(pack[8:8 + size])
        self._body = pack[8 + size:]

    def column(self, index, delta=False, zigzag=False):
        offset, size, count = self.header['columns'][index]
        out, value, shift, last = [], 0, 0, 0
        for byte in self._body[offset:offset + size]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte & 0x80:
                continue
            if zigzag:
                value = (value >> 1) ^ -(value & 1)
            last = last + value if delta else value
            out.append(last)
            value = shift = 0
        assert len(out) == count
        return out

    def tracks(self, kind, rank=None):
        return [t for t in self.header['tracks'] if t['kind'] == kind and rank in (None, t['rank'])]
