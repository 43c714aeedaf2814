// Deflate (RFC 1951), inflated piece by piece.
//
// Budget: 1.4 GB/s of trace text. zlib takes 1.6 times as long, and libdeflate wants all of the text in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace profgpu {

constexpr int kLongestCode = 15;
constexpr size_t kLiterals = 288, kDistances = 32, kCodeLengths = 19;   // symbols of each kind
constexpr uint32_t kLiteralCode = 1 << 13, kInvalidCode = 1 << 14, kEndCode = 1 << 15;

/// What the next bits of a stream stand for, by canonical Huffman codes of up to 15 bits: a first look-up by kFirstBits of
/// them, for longer codes a second one.
template <unsigned kFirstBits, size_t kSymbols>
class HuffmanTable {
 public:
  /// `meanings`: an entry for each symbol, without a length. False if the lengths leave codes over or too few, but for a
  /// single code of one bit. No codes at all are none of these: every entry is kInvalid then.
  bool build(const uint8_t* lengths, size_t symbols, const uint32_t* meanings);

  /// 16 bits of value, 3 of flags, 5 that say how many extra bits follow, 8 of the code's length.
  [[nodiscard]] uint32_t entry(uint64_t bits) const {
    const uint32_t found = entries_[bits & kFirstMask];
    return (found & kSecond) == kSecond ? entries_[(found >> 16) + (bits >> kFirstBits & second_mask_)] : found;
  }

 private:
  static constexpr uint32_t kFirstMask = (1u << kFirstBits) - 1;
  static constexpr uint32_t kSecond = kInvalidCode | kEndCode;   // the value is where the second look-up's entries begin

  uint64_t second_mask_ = 0;
  // A second look-up has as many entries as the longest code needs. Two codes or more share one, so there are at most half
  // as many as symbols.
  std::array<uint32_t, (1u << kFirstBits) + kSymbols / 2 * (1u << (kLongestCode - kFirstBits))> entries_;
};

class Inflater {
 public:
  enum class State { kMoreInput, kMoreRoom, kEnd, kTruncated, kDamaged };
  /// Input that must be there at each call unless it is the last.
  static constexpr size_t kLookahead = 1024;

  Inflater();
  /// Begins a stream.
  void reset();
  /// Inflates what `at` points to and moves `at` past what it used. kMoreInput: call again with more behind what is left;
  /// never where `last` says that there is no more. kMoreRoom: call again.
  State inflate(const uint8_t*& at, const uint8_t* end, bool last);
  /// What the latest call inflated, whatever it returned.
  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(text_.get()) + from_, to_ - from_};
  }

 private:
  class Bits;
  enum class Block { kHeader, kStored, kCodes };

  State inflate_block(Bits& in, bool last);
  State begin_block(Bits& in);
  State begin_stored(Bits& in);
  State read_codes(Bits& in);
  State copy_stored(Bits& in);
  template <bool kCareful>
  State inflate_codes(Bits& in);
  void make_room();

  HuffmanTable<11, kLiterals> literals_;
  HuffmanTable<8, kDistances> distances_;
  HuffmanTable<7, kCodeLengths> code_lengths_;
  std::unique_ptr<uint8_t[]> text_;
  size_t oldest_ = 0, from_ = 0, to_ = 0;   // in text_: of this stream; of the latest call; the end of both
  uint8_t bits_ = 0;                        // of a byte that is used in part
  int bit_count_ = 0;
  Block block_ = Block::kHeader;
  bool last_block_ = false;
  size_t stored_left_ = 0;
};

}  // namespace profgpu
