#include "base/inflate.h"

#include <dlfcn.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/dyn_lib.h"

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
