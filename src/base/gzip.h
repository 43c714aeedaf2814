// Bytes as a gzip file (RFC 1952), and as text (RFC 4648).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace profgpu {

/// In memory, in one piece. `level`: 1 takes a third of 6's time.
std::string gzipped(std::string_view bytes, int level = 6);

/// Base 64 with padding, on one line.
std::string base64(std::string_view bytes);
/// Nullopt for what base64() would not write.
std::optional<std::string> from_base64(std::string_view text);

// Deflate (RFC 1951), inflated piece by piece: by ISA-L's igzip where its library is, which lies beside the program or
// in the system, else by zlib. `bench/inflate_bench.cc` measures both.

class Inflater {
 public:
  enum class State { kOpen, kEnd, kDamaged };

  /// `fast`: by igzip if it is there.
  static std::unique_ptr<Inflater> make(bool fast = true);
  virtual ~Inflater() = default;

  /// Begins a stream.
  virtual void reset() = 0;
  /// Inflates from `in` to `out` until either is at its end, and moves both past what was used and written. kEnd: `in`
  /// is behind the stream, which may be up to kStepsBack bytes before where it was.
  virtual State inflate(const uint8_t*& in, const uint8_t* in_end, uint8_t*& out, uint8_t* out_end) = 0;
  static constexpr int kStepsBack = 8;
};

}  // namespace profgpu
