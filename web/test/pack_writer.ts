// Writes packs as `web/README.md` describes them, for tests and benchmarks.

export type Json = Record<string, unknown>;

export class PackWriter {
  private readonly columns_: [number, number, number][] = [];
  private readonly pieces_: Uint8Array[] = [];
  private size_ = 0;

  plain(values: ArrayLike<number>): number {
    return this.add(values, (value) => value);
  }

  delta(values: ArrayLike<number>): number {
    let before = 0;
    return this.add(values, (value) => {
      const step = value - before;
      before = value;
      return step;
    });
  }

  zigzag(values: ArrayLike<number>): number {
    return this.add(values, (value) => (value >= 0 ? 2 * value : -2 * value - 1));
  }

  finish(header: Json): Uint8Array {
    const text = new TextEncoder().encode(JSON.stringify({ version: 1, ...header, columns: this.columns_ }));
    const out = new Uint8Array(8 + text.length + this.size_);
    out.set(new TextEncoder().encode('PGP1'));
    new DataView(out.buffer).setUint32(4, text.length, true);
    out.set(text, 8);
    let at = 8 + text.length;
    for (const piece of this.pieces_) {
      out.set(piece, at);
      at += piece.length;
    }
    return out;
  }

  private add(values: ArrayLike<number>, number: (value: number) => number): number {
    const bytes = new Uint8Array(values.length * 8);
    let size = 0;
    for (let i = 0; i < values.length; i++) {
      let left = number(values[i]);
      while (left >= 128) {
        bytes[size++] = (left % 128) | 128;
        left = Math.floor(left / 128);
      }
      bytes[size++] = left;
    }
    this.columns_.push([this.size_, size, values.length]);
    this.pieces_.push(bytes.slice(0, size));
    this.size_ += size;
    return this.columns_.length - 1;
  }
}
