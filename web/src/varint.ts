import type { Encoding, Numbers } from './page_data';

export interface Decoded {
  values: Numbers;
  /** False where the bytes held fewer numbers than asked for, or one too large for a double. */
  whole: boolean;
}

/** Decodes `count` LEB128 varints. A number ends after 8 bytes at most: 2^53 fits them. */
export function decodeVarints(bytes: Uint8Array, count: number, encoding: Encoding): Decoded {
  // Each number takes a byte at least, so a count that lies cannot make us allocate much.
  const most = Math.min(count, bytes.length);
  if (encoding === 'plain' && count === bytes.length && bytes.every((byte) => byte < 0x80))
    return { values: bytes, whole: true };
  let values: Numbers = encoding === 'plain' ? new Uint32Array(most) : new Float64Array(most);
  let position = 0;
  let sum = 0;
  for (let i = 0; i < most; i++) {
    let byte = bytes[position++]!;
    let value = byte & 0x7f;
    if (byte >= 0x80) {
      let shift = 7;
      while (byte >= 0x80 && shift < 28 && position < bytes.length) {
        byte = bytes[position++]!;
        value |= (byte & 0x7f) << shift;
        shift += 7;
      }
      let scale = 2 ** 28;
      while (byte >= 0x80 && shift < 56 && position < bytes.length) {
        byte = bytes[position++]!;
        value += (byte & 0x7f) * scale;
        scale *= 128;
        shift += 7;
      }
      if (byte >= 0x80 || value > Number.MAX_SAFE_INTEGER) return { values: values.slice(0, i), whole: false };
    }
    if (position > bytes.length) return { values: values.slice(0, i), whole: false };
    if (encoding === 'delta') value = sum += value;
    else if (encoding === 'zigzag') value = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    else if (value > 0xffffffff && values instanceof Uint32Array) values = Float64Array.from(values);
    values[i] = value;
  }
  return { values, whole: most === count };
}
