// Reads the pack of `web/README.md`. A pack may be cut or damaged: what can be read is shown, and `damage` says what is
// missing.

import { checkedHeader, type Header } from './pack_header';
import type { ColumnIndex, Encoding, Numbers, PageData } from './page_data';
import { decodeVarints } from './varint';

const kMagic = 'PGP1';
const kPrefixBytes = 8;

/** The page's data from its data element: base64 of gzip of a pack. Rejects with a sentence for a person. */
export async function readPack(base64: string): Promise<PageData> {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('this browser cannot unpack gzip (DecompressionStream is missing)');
  }
  const { bytes, whole } = await gunzip(decodeBase64(base64));
  return parsePack(bytes, whole ? [] : ['The report is cut or damaged: its data ends early.']);
}

export function parsePack(bytes: Uint8Array, damage: string[] = []): PageData {
  const magic = String.fromCharCode(...bytes.subarray(0, kMagic.length));
  if (magic !== kMagic) throw new Error('the data of this page is not a profgpu pack');
  const header_bytes =
    bytes.length < kPrefixBytes ? Infinity : new DataView(bytes.buffer, bytes.byteOffset).getUint32(4, true);
  if (header_bytes > bytes.length - kPrefixBytes) throw new Error('the data of this page ends within its header');
  const text = new TextDecoder().decode(bytes.subarray(kPrefixBytes, kPrefixBytes + header_bytes));
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error("the header of this page's data is damaged");
  }
  return new Pack(checkedHeader(json, damage), bytes.subarray(kPrefixBytes + header_bytes), damage);
}

class Pack implements PageData {
  readonly report;
  readonly origin_ns;
  readonly unix_origin_ns;
  readonly span_ns;
  readonly kept;
  readonly events;
  readonly events_kept;
  readonly strings;
  readonly categories;
  readonly args;
  readonly tracks;
  readonly ranks;
  readonly samples;
  readonly reasons;
  readonly host_least_ns;
  readonly without_events;
  private readonly columns_: [number, number, number][];
  private readonly decoded_ = new Map<string, Numbers>();

  constructor(
    header: Header,
    private readonly bytes_: Uint8Array,
    readonly damage: string[],
  ) {
    this.report = header.report;
    this.origin_ns = header.origin_ns;
    this.unix_origin_ns = header.unix_origin_ns;
    this.span_ns = header.span_ns;
    this.kept = header.kept;
    this.events = header.events;
    this.events_kept = header.events_kept;
    this.strings = header.strings;
    this.categories = header.categories;
    this.args = header.args;
    this.tracks = header.tracks;
    this.ranks = header.ranks;
    this.samples = header.samples;
    this.reasons = header.reasons;
    this.host_least_ns = header.host_least_ns;
    this.without_events = header.without_events;
    this.columns_ = header.columns;
  }

  column(index: ColumnIndex | undefined, encoding: Encoding = 'plain'): Numbers {
    const key = `${index} ${encoding}`;
    let values = this.decoded_.get(key);
    if (!values) this.decoded_.set(key, (values = this.decode(index, encoding)));
    return values;
  }

  private decode(index: ColumnIndex | undefined, encoding: Encoding): Numbers {
    const place = index === undefined ? undefined : this.columns_[index];
    if (!place) return new Uint32Array(0);
    const [offset, size, count] = place;
    const decoded = decodeVarints(this.bytes_.subarray(offset, offset + size), count, encoding);
    if (!decoded.whole) {
      this.damage.push(`Column ${index} is damaged: ${decoded.values.length} of ${count} numbers could be read.`);
    }
    return decoded.values;
  }
}

const kAlphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const kNotBase64 = 64;

/** Bytes of base64 text; space and padding are passed over, and what is no base64 ends it. */
export function decodeBase64(text: string): Uint8Array {
  const digits = new Uint8Array(128).fill(kNotBase64);
  for (let i = 0; i < kAlphabet.length; i++) digits[kAlphabet.charCodeAt(i)] = i;
  const out = new Uint8Array(Math.ceil((text.length * 3) / 4));
  let used = 0;
  let bits = 0;
  let held = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const digit = code < 128 ? digits[code]! : kNotBase64;
    if (digit === kNotBase64) {
      if (code <= 32) continue;
      break;
    }
    bits = (bits << 6) | digit;
    if (++held < 4) continue;
    out[used] = bits >> 16;
    out[used + 1] = bits >> 8;
    out[used + 2] = bits;
    used += 3;
    bits = held = 0;
  }
  // Two or three digits are left of the last group.
  bits <<= 6 * (4 - held);
  if (held > 1) out[used++] = bits >> 16;
  if (held > 2) out[used++] = bits >> 8;
  return out.subarray(0, used);
}

/** Unpacks in pieces, so that what stands before the damage is kept. */
async function gunzip(packed: Uint8Array): Promise<{ bytes: Uint8Array; whole: boolean }> {
  const kPiece = 1 << 18;
  let at = 0;
  const source = new ReadableStream<BufferSource>({
    pull(controller) {
      if (at < packed.length) controller.enqueue(packed.slice(at, (at += kPiece)));
      else controller.close();
    },
  });
  const reader = source.pipeThrough(new DecompressionStream('gzip')).getReader();
  const pieces: Uint8Array[] = [];
  let size = 0;
  let whole = true;
  try {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      pieces.push(piece.value);
      size += piece.value.length;
    }
  } catch {
    whole = false;
  }
  const bytes = new Uint8Array(size);
  let filled = 0;
  for (const piece of pieces) {
    bytes.set(piece, filled);
    filled += piece.length;
  }
  return { bytes, whole };
}
