// Deflate (RFC 1951), inflated piece by piece: by ISA-L's igzip where its library is, which lies beside the program or
// in the system, else by zlib. `bench/inflate_bench.cc` measures both.
#pragma once

#include <cstdint>
#include <memory>

namespace profgpu {

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
