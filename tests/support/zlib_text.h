// What zlib makes of a text.
#pragma once

#include <zlib.h>

#include <string>

namespace profgpu {

/// `window_bits`: with 16 added a file of gzip, negative bare deflate.
inline std::string deflated(const std::string& text, int window_bits, int level = 6, int strategy = Z_DEFAULT_STRATEGY) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream z{};
  deflateInit2(&z, level, Z_DEFLATED, window_bits, 8, strategy);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace profgpu
