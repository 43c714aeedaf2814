#include "base/json_quoted.h"

#include <cstdint>

#include "base/text.h"

namespace profgpu {
namespace {

bool is_plain(unsigned char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

void append_escape(std::string& out, uint32_t code_unit) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[code_unit >> shift & 0xF];
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: append_escape(out, static_cast<unsigned char>(c));
  }
}

// Appends the character at the start of `s`, which is not plain; returns its bytes. JSON may carry what terminals obey
// and nobody sees, but people print JSON on terminals.
size_t append_special(std::string& out, std::string_view s) {
  const Character c = first_character(s);
  if (!c.valid)
    append_utf8(out, 0xFFFD);
  else if (c.bytes == 1)
    append_ascii(out, s[0]);
  else if (c.code_point < 0x10000 && (is_control(c.code_point) || is_invisible(c.code_point)))
    append_escape(out, c.code_point);
  else
    out += s.substr(0, c.bytes);
  return c.bytes;
}

}  // namespace

void append_json_quoted(std::string& out, std::string_view s) {
  out += '"';
  for (size_t i = 0; i < s.size();) {
    const size_t from = i;
    while (i < s.size() && is_plain(static_cast<unsigned char>(s[i]))) ++i;
    out.append(s.data() + from, i - from);
    if (i < s.size()) i += append_special(out, s.substr(i));
  }
  out += '"';
}

std::string json_quoted(std::string_view s) {
  std::string out;
  append_json_quoted(out, s);
  return out;
}

}  // namespace profgpu
