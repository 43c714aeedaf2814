#include "base/inflate.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace profgpu {
namespace {

constexpr size_t kReach = 32 << 10;        // how far back a match may lie
constexpr size_t kRoom = 128 << 10;        // for text between two moves of what matches may reach
constexpr size_t kLongestMatch = 258, kBlock = 16;

constexpr uint32_t meaning(uint32_t value, uint32_t extra_bits) { return value << 16 | extra_bits << 8; }

// RFC 1951, 3.2.5: bases and extra bits of lengths and distances.
constexpr std::array<uint32_t, kLiterals> literal_meanings() {
  std::array<uint32_t, kLiterals> all{};
  for (uint32_t c = 0; c < 256; ++c) all[c] = meaning(c, 0) | kLiteralCode;
  all[256] = kEndCode;
  uint32_t base = 3;
  for (uint32_t i = 0; i < 28; ++i) {
    const uint32_t extra = i < 8 ? 0 : i / 4 - 1;
    all[257 + i] = meaning(base, extra);
    base += 1u << extra;
  }
  all[285] = meaning(kLongestMatch, 0);
  all[286] = all[287] = kInvalidCode;
  return all;
}
constexpr std::array<uint32_t, kDistances> distance_meanings() {
  std::array<uint32_t, kDistances> all{};
  uint32_t base = 1;
  for (uint32_t i = 0; i < 30; ++i) {
    const uint32_t extra = i < 4 ? 0 : i / 2 - 1;
    all[i] = meaning(base, extra);
    base += 1u << extra;
  }
  all[30] = all[31] = kInvalidCode;
  return all;
}
constexpr std::array<uint32_t, kCodeLengths> code_length_meanings() {
  std::array<uint32_t, kCodeLengths> all{};
  for (uint32_t i = 0; i < kCodeLengths; ++i) all[i] = meaning(i, i == 16 ? 2 : i == 17 ? 3 : i == 18 ? 7 : 0);
  return all;
}
constexpr auto kLiteralMeanings = literal_meanings();
constexpr auto kDistanceMeanings = distance_meanings();
constexpr auto kCodeLengthMeanings = code_length_meanings();

constexpr uint32_t value(uint32_t entry) { return entry >> 16; }
constexpr int extra_bits(uint32_t entry) { return static_cast<int>(entry >> 8 & 31); }

uint32_t reversed(uint32_t code, int bits) {
  uint32_t out = 0;
  for (int i = 0; i < bits; ++i) out |= (code >> i & 1) << (bits - 1 - i);
  return out;
}

// Writes up to kBlock - 1 bytes more.
void copy_match(uint8_t* out, size_t distance, size_t length) {
  const uint8_t* from = out - distance;
  const uint8_t* end = out + length;
  if (distance >= kBlock) {
    do {
      std::memcpy(out, from, kBlock);
      out += kBlock, from += kBlock;
    } while (out < end);
  } else if (distance == 1) {
    std::memset(out, *from, length);
  } else {
    while (out < end) *out++ = *from++;
  }
}

}  // namespace

template <unsigned kFirstBits, size_t kSymbols>
bool HuffmanTable<kFirstBits, kSymbols>::build(const uint8_t* lengths, size_t symbols, const uint32_t* meanings) {
  std::array<uint32_t, kLongestCode + 2> next{};   // the next code of each length
  for (size_t s = 0; s < symbols; ++s) ++next[lengths[s] + 1];
  next[1] = 0;   // symbols without a code
  int longest = 0;
  uint32_t code = 0;
  for (int bits = 1; bits <= kLongestCode; ++bits) {
    const uint32_t count = next[bits + 1];
    if (count > 0) longest = bits;
    code = code << 1;
    next[bits] = code;
    code += count;
    if (code > 1u << bits) return false;
  }
  if (longest > 1 && code != 1u << kLongestCode) return false;
  constexpr int first = kFirstBits;
  constexpr uint32_t first_size = 1u << first;
  std::fill_n(entries_.begin(), first_size, kInvalidCode | 1);
  const int second = std::max(0, longest - first);
  second_mask_ = (1u << second) - 1;
  uint32_t used = first_size;
  for (size_t s = 0; s < symbols; ++s) {
    const int bits = lengths[s];
    if (bits == 0) continue;
    const uint32_t place = reversed(next[bits]++, bits);
    const uint32_t entry = meanings[s] | static_cast<uint32_t>(bits);
    if (bits <= first) {
      for (uint32_t i = place; i < first_size; i += 1u << bits) entries_[i] = entry;
      continue;
    }
    uint32_t& shared = entries_[place & kFirstMask];
    if ((shared & kSecond) != kSecond) {
      shared = used << 16 | kSecond;
      used += 1u << second;
    }
    for (uint32_t i = place >> first; i <= second_mask_; i += 1u << (bits - first)) entries_[(shared >> 16) + i] = entry;
  }
  return true;
}

/// The bits of the input. Those above `count` are of the bytes that follow, or zero.
class Inflater::Bits {
 public:
  Bits(const uint8_t* at, const uint8_t* end, uint8_t bits, int count) : bits_(bits), count_(count), at_(at), end_(end) {}

  [[nodiscard]] const uint8_t* at() const { return at_; }
  [[nodiscard]] size_t left() const { return static_cast<size_t>(end_ - at_); }
  [[nodiscard]] uint64_t ahead() const { return bits_; }
  /// Negative: more was taken than there is.
  [[nodiscard]] int count() const { return count_; }

  /// Makes it 56 bits at least. Eight bytes must be left.
  void fill() {
    uint64_t next;
    std::memcpy(&next, at_, 8);
    if constexpr (std::endian::native == std::endian::big) next = __builtin_bswap64(next);
    bits_ |= next << count_;
    at_ += (63 - count_) >> 3;
    count_ |= 56;
  }
  /// As many as there are.
  void fill_carefully() {
    for (; count_ < 56 && at_ < end_; count_ += 8) bits_ |= uint64_t{*at_++} << count_;
  }
  uint32_t take(int n) {
    const auto taken = static_cast<uint32_t>(bits_ & ((uint64_t{1} << n) - 1));
    drop(n);
    return taken;
  }
  void drop(int n) {
    bits_ >>= n;
    count_ -= n;
  }
  void drop_to_byte() { drop(count_ & 7); }
  /// Gives back whole bytes.
  void give_back() {
    at_ -= count_ >> 3;
    count_ &= 7;
    bits_ &= (1u << count_) - 1;
  }
  void skip_bytes(size_t n) { at_ += n; }

 private:
  uint64_t bits_;
  int count_;
  const uint8_t* at_;
  const uint8_t* end_;
};

Inflater::Inflater() : text_(std::make_unique_for_overwrite<uint8_t[]>(kReach + kRoom + kLongestMatch + kBlock)) {}

void Inflater::reset() {
  oldest_ = from_ = to_;
  bit_count_ = 0;
  bits_ = 0;
  block_ = Block::kHeader;
  last_block_ = false;
}

void Inflater::make_room() {
  if (to_ >= kReach + kRoom) {
    const size_t gone = to_ - kReach;
    std::memmove(text_.get(), text_.get() + gone, kReach);
    to_ -= gone;
    oldest_ -= std::min(oldest_, gone);
  }
  from_ = to_;
}

Inflater::State Inflater::inflate(const uint8_t*& at, const uint8_t* end, bool last) {
  make_room();
  Bits in(at, end, bits_, bit_count_);
  State state = State::kMoreRoom;
  do {
    if (block_ != Block::kHeader) {
      state = inflate_block(in, last);
    } else if (last_block_) {
      in.drop_to_byte();
      state = State::kEnd;
    } else if (!last && in.left() < kLookahead) {
      state = State::kMoreInput;
    } else {
      state = begin_block(in);
    }
  } while (state == State::kMoreRoom && to_ < kReach + kRoom);
  if (state == State::kTruncated || state == State::kDamaged) return state;
  in.give_back();
  bits_ = static_cast<uint8_t>(in.ahead());
  bit_count_ = in.count();
  at = in.at();
  return state;
}

// kMoreRoom: the block is at its end, or there is no room.
Inflater::State Inflater::inflate_block(Bits& in, bool last) {
  State state = block_ == Block::kStored ? copy_stored(in) : inflate_codes<false>(in);
  if (state == State::kMoreInput && last)
    state = block_ == Block::kStored ? State::kTruncated : inflate_codes<true>(in);
  return state;
}

Inflater::State Inflater::begin_block(Bits& in) {
  in.fill_carefully();
  last_block_ = in.take(1) != 0;
  const uint32_t type = in.take(2);
  if (in.count() < 0) return State::kTruncated;
  if (type == 0) return begin_stored(in);
  block_ = Block::kCodes;
  if (type == 2) return read_codes(in);
  if (type == 3) return State::kDamaged;
  std::array<uint8_t, kLiterals> lengths;
  for (size_t i = 0; i < kLiterals; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  literals_.build(lengths.data(), kLiterals, kLiteralMeanings.data());
  lengths.fill(5);
  distances_.build(lengths.data(), kDistances, kDistanceMeanings.data());
  return State::kMoreRoom;
}

Inflater::State Inflater::begin_stored(Bits& in) {
  in.drop_to_byte();
  in.fill_carefully();
  const uint32_t length = in.take(16), inverted = in.take(16);
  if (in.count() < 0) return State::kTruncated;
  if ((length ^ inverted) != 0xFFFF) return State::kDamaged;
  in.give_back();
  stored_left_ = length;
  block_ = Block::kStored;
  return State::kMoreRoom;
}

Inflater::State Inflater::copy_stored(Bits& in) {
  const size_t n = std::min({stored_left_, in.left(), kReach + kRoom - to_});
  if (n > 0) std::memcpy(text_.get() + to_, in.at(), n);
  in.skip_bytes(n);
  to_ += n;
  stored_left_ -= n;
  if (stored_left_ == 0) block_ = Block::kHeader;
  return stored_left_ > 0 && in.left() == 0 ? State::kMoreInput : State::kMoreRoom;
}

// RFC 1951, 3.2.7. No more than the codes of 30 distances and 286 literals and lengths may be given.
Inflater::State Inflater::read_codes(Bits& in) {
  static constexpr std::array<uint8_t, kCodeLengths> kOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  in.fill_carefully();
  const size_t literals = in.take(5) + 257, distances = in.take(5) + 1, given = in.take(4) + 4;
  if (in.count() < 0) return State::kTruncated;
  if (literals > 286 || distances > 30) return State::kDamaged;
  std::array<uint8_t, kCodeLengths> of_lengths{};
  for (size_t i = 0; i < given; ++i) {
    in.fill_carefully();
    of_lengths[kOrder[i]] = static_cast<uint8_t>(in.take(3));
  }
  if (in.count() < 0) return State::kTruncated;
  if (!code_lengths_.build(of_lengths.data(), of_lengths.size(), kCodeLengthMeanings.data())) return State::kDamaged;

  std::array<uint8_t, 286 + 30> lengths{};
  for (size_t i = 0; i < literals + distances;) {
    in.fill_carefully();
    const uint32_t entry = code_lengths_.entry(in.ahead());
    in.drop(static_cast<int>(entry & 0xFF));
    const uint32_t symbol = value(entry), extra = in.take(extra_bits(entry));
    if (in.count() < 0) return State::kTruncated;
    if ((entry & kInvalidCode) != 0) return State::kDamaged;
    if (symbol < 16) {
      lengths[i++] = static_cast<uint8_t>(symbol);
      continue;
    }
    const size_t times = extra + (symbol == 18 ? 11 : 3);
    if ((symbol == 16 && i == 0) || i + times > literals + distances) return State::kDamaged;
    std::fill_n(&lengths[i], times, symbol == 16 ? lengths[i - 1] : uint8_t{0});
    i += times;
  }
  if (lengths[256] == 0 || !literals_.build(lengths.data(), literals, kLiteralMeanings.data()) ||
      !distances_.build(lengths.data() + literals, distances, kDistanceMeanings.data()))
    return State::kDamaged;
  return State::kMoreRoom;
}

// Careful: the last bytes of the input, each symbol only if all of its bits are there. Otherwise a symbol with what
// follows it is 48 bits at most, and kBlock bytes of input are left.
template <bool kCareful>
Inflater::State Inflater::inflate_codes(Bits& shared) {
  Bits in = shared;
  uint8_t* const text = text_.get();
  uint8_t* out = text + to_;
  const auto finish = [&](State state) {
    shared = in;
    to_ = static_cast<size_t>(out - text);
    return state;
  };
  while (out < text + kReach + kRoom) {
    if constexpr (kCareful) {
      in.fill_carefully();
    } else {
      if (in.left() < kBlock) return finish(State::kMoreInput);
      in.fill();
    }
    const uint32_t entry = literals_.entry(in.ahead());
    in.drop(static_cast<int>(entry & 0xFF));
    if (kCareful && in.count() < 0) return finish(State::kTruncated);
    if ((entry & kLiteralCode) != 0) {
      *out++ = static_cast<uint8_t>(value(entry));
      continue;
    }
    if ((entry & kInvalidCode) != 0) return finish(State::kDamaged);
    if ((entry & kEndCode) != 0) {
      block_ = Block::kHeader;
      return finish(State::kMoreRoom);
    }
    const size_t length = value(entry) + in.take(extra_bits(entry));
    const uint32_t back = distances_.entry(in.ahead());
    in.drop(static_cast<int>(back & 0xFF));
    const size_t distance = value(back) + in.take(extra_bits(back));
    if (kCareful && in.count() < 0) return finish(State::kTruncated);
    if ((back & kInvalidCode) != 0 || distance > static_cast<size_t>(out - text) - oldest_)
      return finish(State::kDamaged);
    copy_match(out, distance, length);
    out += length;
  }
  return finish(State::kMoreRoom);
}

}  // namespace profgpu
