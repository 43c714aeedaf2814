// The inflater against zlib: the same text, and whole or not.
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/inflate.h"

namespace {

constexpr size_t kMostText = 1 << 20;

bool by_zlib(const uint8_t* data, size_t size, std::string& text) {
  z_stream z{};
  inflateInit2(&z, -15);
  z.next_in = const_cast<Bytef*>(data);
  z.avail_in = static_cast<uInt>(size);
  std::string piece(1 << 16, '\0');
  int rc = Z_OK;
  while (rc == Z_OK && text.size() < kMostText) {
    z.next_out = reinterpret_cast<Bytef*>(piece.data());
    z.avail_out = static_cast<uInt>(piece.size());
    rc = inflate(&z, Z_NO_FLUSH);
    text.append(piece, 0, piece.size() - z.avail_out);
  }
  inflateEnd(&z);
  return rc == Z_STREAM_END;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using profgpu::Inflater;
  std::string expected, text;
  const bool whole = by_zlib(data, size, expected);
  if (expected.size() >= kMostText) return 0;
  Inflater inflater;
  auto state = Inflater::State::kMoreRoom;
  while (state == Inflater::State::kMoreRoom) {
    const uint8_t* at = data;
    state = inflater.inflate(data, data + size, true);
    size -= static_cast<size_t>(data - at);
    text += inflater.text();
    if (text.size() > expected.size()) break;
  }
  if (text != expected || whole != (state == Inflater::State::kEnd)) std::abort();
  return 0;
}
