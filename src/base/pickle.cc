#include "base/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/text.h"

namespace profgpu {

std::span<const PickleValue> PickleObjects::items(PickleValue container) const {
  container = resolved(container);
  if (!container.is(PickleKind::kSequence) && !container.is(PickleKind::kDict)) return {};
  return containers_[container.index()].items;
}

PickleValue PickleObjects::member(PickleValue dict, uint32_t key) const {
  if (!resolved(dict).is(PickleKind::kDict)) return {};
  const std::span<const PickleValue> all = items(dict);
  // The last of two of one name counts, as in Python.
  for (size_t i = all.size() / 2; i-- > 0;)
    if (all[2 * i] == PickleValue::text(key)) return resolved(all[2 * i + 1]);
  return {};
}

std::optional<int64_t> PickleObjects::other_integer(PickleValue value) const {
  if (value.is(PickleKind::kBool)) return value.index();
  if (value.is(PickleKind::kWide) && wide_[value.index()].whole) return wide_[value.index()].integer;
  return std::nullopt;
}

std::optional<uint64_t> PickleObjects::address(PickleValue value) const {
  if (const auto whole = integer(value)) return static_cast<uint64_t>(*whole);
  constexpr double kSigned = 0x1p63, kAll = 0x1p64;
  if (!value.is(PickleKind::kWide)) return std::nullopt;
  const Wide& wide = wide_[value.index()];
  if (wide.number < kSigned || wide.number > kAll || wide.integer >= 0) return std::nullopt;
  return static_cast<uint64_t>(wide.integer);
}

std::optional<double> PickleObjects::number(PickleValue value) const {
  if (const auto whole = integer(value)) return static_cast<double>(*whole);
  if (value.is(PickleKind::kWide)) return wide_[value.index()].number;
  return std::nullopt;
}

PickleValue PickleObjects::kept(int64_t x) { return kept(Wide{true, x, 0}); }
PickleValue PickleObjects::kept(double x) { return kept(Wide{false, 0, x}); }
PickleValue PickleObjects::kept(const Wide& wide) {
  wide_.push_back(wide);
  return PickleValue::wide(static_cast<uint32_t>(wide_.size() - 1));
}

namespace pickle {
namespace {

struct NamedOpcode {
  uint8_t opcode;
  std::string_view name;
};
// What could import, call or build: Python's pickletools has the names.
constexpr NamedOpcode kOfCode[] = {
    {'c', "GLOBAL"},     {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},       {'b', "BUILD"},
    {'i', "INST"},       {'o', "OBJ"},           {0x81, "NEWOBJ"},      {0x92, "NEWOBJ_EX"},
    {0x82, "EXT1"},      {0x83, "EXT2"},         {0x84, "EXT4"},        {'P', "PERSID"},
    {'Q', "BINPERSID"},  {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
};
// Data, but not of any file that profgpu knows.
constexpr NamedOpcode kUnused[] = {
    {0x8f, "EMPTY_SET"},      {0x90, "ADDITEMS"}, {0x91, "FROZENSET"}, {'B', "BINBYTES"},
    {'C', "SHORT_BINBYTES"}, {0x8e, "BINBYTES8"}, {0x96, "BYTEARRAY8"},
};
constexpr size_t kMaxNamed = 80;   // bytes of what an opcode would import

}  // namespace

Error refused(uint8_t opcode, uint64_t at, std::string_view name) {
  for (const NamedOpcode& known : kOfCode) {
    if (known.opcode != opcode) continue;
    std::string what(name.substr(0, kMaxNamed));
    replace_invalid_utf8(what);
    for (char& c : what)
      if (is_control(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 0x80) c = ' ';
    return {fmt::format("pickle opcode {}{}{} at byte {} would run code", known.name, what.empty() ? "" : " ", what, at),
            "profgpu reads pickles of plain data only; do not load this file with Python either unless you trust it"};
  }
  for (const NamedOpcode& known : kUnused)
    if (known.opcode == opcode)
      return {fmt::format("pickle opcode {} at byte {}: sets and bytes are not read", known.name, at),
              "no PyTorch version writes such a file: check what wrote it"};
  return damaged(fmt::format("0x{:02x} is not a pickle opcode", opcode), at);
}

Error too_large(std::string_view what, uint64_t at) {
  return {fmt::format("the pickle has {} than profgpu reads (at byte {})", what, at), "no PyTorch version writes such a file: copy it again, or check what wrote it"};
}

Error damaged(std::string_view what, uint64_t at) {
  return {fmt::format("damaged pickle at byte {}: {}", at, what), "copy the file again, or record it again"};
}

LongNumber long_number(const unsigned char* bytes, size_t size) {
  LongNumber x;
  const bool negative = size > 0 && (bytes[size - 1] & 0x80) != 0;
  // Bytes that only repeat the sign say nothing.
  const unsigned char sign = negative ? 0xFF : 0;
  while (size > 8 && bytes[size - 1] == sign && ((bytes[size - 2] & 0x80) != 0) == negative) --size;
  x.whole = size <= 8;
  uint64_t bits = negative ? ~uint64_t{0} : 0;
  for (size_t i = std::min<size_t>(size, 8); i-- > 0;) bits = bits << 8 | bytes[i];
  x.integer = static_cast<int64_t>(bits);
  if (x.whole) return x;
  for (size_t i = size; i-- > 0;) x.number = x.number * 256 + bytes[i];
  if (negative) x.number -= std::pow(2.0, 8.0 * static_cast<double>(size));
  return x;
}

double big_endian_double(const char* bytes) {
  return std::bit_cast<double>(__builtin_bswap64(little_endian<uint64_t>(bytes)));
}

namespace {

// The digits of \xhh, \uhhhh and \Uhhhhhhhh; false: they are none.
bool take_hex(std::string_view& text, size_t digits, uint32_t& value) {
  if (text.size() < digits) return false;
  value = 0;
  for (const char c : text.substr(0, digits)) {
    const int digit = is_digit(c) ? c - '0' : lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
    if (digit < 0) return false;
    value = value << 4 | static_cast<uint32_t>(digit);
  }
  text.remove_prefix(digits);
  return true;
}

std::string without_escapes(std::string_view text, bool unicode_only) {
  std::string out;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c != '\\' || text.empty()) {
      out.push_back(c);
      continue;
    }
    const char kind = text.front();
    std::string_view rest = text.substr(1);
    uint32_t code = 0;
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits > 0 && (kind != 'x' || !unicode_only) && take_hex(rest, digits, code)) {
      append_utf8(out, code < 0x110000 ? code : 0xFFFD);
      text = rest;
    } else if (unicode_only) {
      out.push_back('\\');
    } else {
      out.push_back(kind == 'n' ? '\n' : kind == 't' ? '\t' : kind == 'r' ? '\r' : kind);
      text = rest;
    }
  }
  return out;
}

}  // namespace

std::string unquoted(std::string_view line) {
  const bool quoted = line.size() >= 2 && line.front() == line.back() && (line.front() == '\'' || line.front() == '"');
  return without_escapes(quoted ? line.substr(1, line.size() - 2) : line, false);
}

std::string unescaped_unicode(std::string_view line) { return without_escapes(line, true); }

size_t Window::refill(size_t wanted) {
  const auto there = static_cast<size_t>(end_ - at_);
  if (wanted > buffer_.size()) {
    std::vector<char> larger(wanted);
    std::copy(at_, end_, larger.begin());
    buffer_.swap(larger);
  } else if (there > 0) {
    std::memmove(buffer_.data(), at_, there);
  }
  at_ = buffer_.data();
  end_ = at_ + there;
  while (!over_ && static_cast<size_t>(end_ - at_) < wanted) {
    const auto kept = static_cast<size_t>(end_ - at_);
    const size_t got = from_.read(buffer_.data() + kept, buffer_.size() - kept);
    over_ = got < buffer_.size() - kept;
    end_ += got;
    read_ += got;
  }
  return static_cast<size_t>(end_ - at_);
}

}  // namespace pickle
}  // namespace profgpu
