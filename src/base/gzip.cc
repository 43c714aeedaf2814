#include "base/gzip.h"

#include <dlfcn.h>
#include <libdeflate.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/dyn_lib.h"

namespace profgpu {

// Levels above 6 make the pages of the example traces less than 2 % smaller.
std::string gzipped(std::string_view bytes, int level) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(level), libdeflate_free_compressor);
  if (!compressor) return {};
  std::string out(libdeflate_gzip_compress_bound(compressor.get(), bytes.size()), '\0');
  out.resize(libdeflate_gzip_compress(compressor.get(), bytes.data(), bytes.size(), out.data(), out.size()));
  out.shrink_to_fit();
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](size_t k) { return k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U; };
    const uint32_t group = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    out += kDigits[group >> 18 & 63];
    out += kDigits[group >> 12 & 63];
    out += i + 1 < bytes.size() ? kDigits[group >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;   // of bits
  const size_t end = text.find('=');
  for (const char c : text.substr(0, end)) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xff);
  }
  if (base64(out) != text) return std::nullopt;   // wrong padding, or bits that belong to no byte
  return out;
}

}  // namespace profgpu

#if __has_include(<isa-l/igzip_lib.h>)
#define PROFGPU_IGZIP
#include <isa-l/igzip_lib.h>
#endif

namespace profgpu {
namespace {

class ZlibInflater final : public Inflater {
 public:
  ZlibInflater() { inflateInit2(&z_, -MAX_WBITS); }
  ZlibInflater(const ZlibInflater&) = delete;
  ZlibInflater& operator=(const ZlibInflater&) = delete;
  ~ZlibInflater() override { inflateEnd(&z_); }

  void reset() override { inflateReset(&z_); }
  State inflate(const uint8_t*& in, const uint8_t* in_end, uint8_t*& out, uint8_t* out_end) override {
    z_.next_in = const_cast<uint8_t*>(in), z_.avail_in = static_cast<uInt>(in_end - in);
    z_.next_out = out, z_.avail_out = static_cast<uInt>(out_end - out);
    const int rc = ::inflate(&z_, Z_NO_FLUSH);
    in = z_.next_in, out = z_.next_out;
    return rc == Z_STREAM_END ? State::kEnd : rc == Z_OK || rc == Z_BUF_ERROR ? State::kOpen : State::kDamaged;
  }

 private:
  z_stream z_{};
};

#ifdef PROFGPU_IGZIP
struct Igzip {
  DynLib library;
  void (*init)(inflate_state*) = nullptr;
  void (*reset)(inflate_state*) = nullptr;
  int (*inflate)(inflate_state*) = nullptr;
};

// Opened once, and never closed.
const Igzip& igzip() {
  static const Igzip* const found = [] {
    auto* made = new Igzip;
    // Beside the file that this code is in: the program, or libprofgpu.so.
    Dl_info self{};
    const bool known = ::dladdr(reinterpret_cast<void*>(&Inflater::make), &self) != 0 && self.dli_fname != nullptr;
    std::string file = known ? self.dli_fname : "";
    std::error_code unknown;   // of the program the loader knows what it was called by
    if (!file.starts_with('/')) file = std::filesystem::read_symlink("/proc/self/exe", unknown);
    const std::string folder = file.substr(0, file.rfind('/') + 1);
    std::vector<std::string> places;
    if (!folder.empty())
      places = {folder + "libisal.so.2", folder + "../lib/profgpu/libisal.so.2", folder + "profgpu/libisal.so.2"};
    places.emplace_back("libisal.so.2");
    if (auto opened = DynLib::open_first(places)) {
      made->library = *std::move(opened);
      made->init = made->library.first_symbol({"isal_inflate_init"});
      made->reset = made->library.first_symbol({"isal_inflate_reset"});
      made->inflate = made->library.first_symbol({"isal_inflate"});
    }
    return made;
  }();
  return *found;
}

class IgzipInflater final : public Inflater {
 public:
  explicit IgzipInflater(const Igzip& igzip) : igzip_(igzip) { igzip_.init(&state_); }

  void reset() override { igzip_.reset(&state_); }
  State inflate(const uint8_t*& in, const uint8_t* in_end, uint8_t*& out, uint8_t* out_end) override {
    state_.next_in = const_cast<uint8_t*>(in), state_.avail_in = static_cast<uint32_t>(in_end - in);
    state_.next_out = out, state_.avail_out = static_cast<uint32_t>(out_end - out);
    const int rc = igzip_.inflate(&state_);
    in = state_.next_in, out = state_.next_out;
    if (rc < 0) return State::kDamaged;
    if (state_.block_state != ISAL_BLOCK_FINISH) return State::kOpen;
    in -= state_.read_in_length / 8;   // whole bytes behind the stream that it has taken already
    return State::kEnd;
  }

 private:
  const Igzip& igzip_;
  inflate_state state_{};
};
#endif

}  // namespace

std::unique_ptr<Inflater> Inflater::make([[maybe_unused]] bool fast) {
#ifdef PROFGPU_IGZIP
  if (fast && igzip().inflate != nullptr && igzip().init != nullptr && igzip().reset != nullptr)
    return std::make_unique<IgzipInflater>(igzip());
#endif
  return std::make_unique<ZlibInflater>();
}

}  // namespace profgpu
