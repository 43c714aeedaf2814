#include "measure/sample_files.h"

#include <cstdint>

#include "base/dyn_lib.h"
#include "base/text.h"
#include "measure/vendor_call.h"

namespace profgpu {
namespace {

constexpr int64_t kMaxPixels = int64_t{1} << 28;   // more is a damaged file

// libjpeg-turbo's TurboJPEG interface (2.0 and later).
class TurboJpeg final : public ImageDecoder {
 public:
  explicit TurboJpeg(DynLib library)
      : library_(std::move(library)),
        create_(library_.first_symbol({"tjInitDecompress"})),
        header_(library_.first_symbol({"tjDecompressHeader3"})),
        decompress_(library_.first_symbol({"tjDecompress2"})),
        destroy_(library_.first_symbol({"tjDestroy"})) {}
  [[nodiscard]] bool complete() const { return create_ && header_ && decompress_ && destroy_; }

  Status decode(std::string_view bytes) const override {
    const std::unique_ptr<void, int (*)(void*)> handle(create_(), destroy_);
    const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
    int width = 0, height = 0, sampling = 0, colours = 0;
    if (!handle || header_(handle.get(), data, bytes.size(), &width, &height, &sampling, &colours) != 0 || width <= 0 ||
        height <= 0 || int64_t{width} * height > kMaxPixels)
      return Error{"it is no JPEG image"};
    std::vector<unsigned char> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    constexpr int kRgb = 0;
    const int failed =
        decompress_(handle.get(), data, bytes.size(), pixels.data(), width, 0, height, kRgb, 0);
    return failed == 0 ? ok() : Status(Error{"it is a damaged JPEG image"});
  }

 private:
  DynLib library_;
  void* (*create_)();
  int (*header_)(void*, const unsigned char*, unsigned long, int*, int*, int*, int*);
  int (*decompress_)(void*, const unsigned char*, unsigned long, unsigned char*, int, int, int, int, int);
  int (*destroy_)(void*);
};

class WebP final : public ImageDecoder {
 public:
  explicit WebP(DynLib library)
      : library_(std::move(library)),
        info_(library_.first_symbol({"WebPGetInfo"})),
        decode_(library_.first_symbol({"WebPDecodeRGBInto"})) {}
  [[nodiscard]] bool complete() const { return info_ && decode_; }

  Status decode(std::string_view bytes) const override {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    int width = 0, height = 0;
    if (!info_(data, bytes.size(), &width, &height) || width <= 0 || height <= 0 ||
        int64_t{width} * height > kMaxPixels)
      return Error{"it is no WebP image"};
    std::vector<uint8_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    if (decode_(data, bytes.size(), pixels.data(), pixels.size(), 3 * width)) return ok();
    return Error{"it is a damaged WebP image"};
  }

 private:
  DynLib library_;
  int (*info_)(const uint8_t*, size_t, int*, int*);
  uint8_t* (*decode_)(const uint8_t*, size_t, uint8_t*, size_t, int);
};

template <class Decoder>
Result<std::unique_ptr<ImageDecoder>> opened(const char* named_by, const std::vector<std::string>& names,
                                             const char* package) {
  auto library = DynLib::open_first(vendor_library_names(named_by, names));
  if (!library) return Error{library.error().message, fmt::format("the package {} has it", package)};
  const std::string path = library->path();
  auto decoder = std::make_unique<Decoder>(*std::move(library));
  if (!decoder->complete()) return Error{path + " lacks the functions that decode"};
  return std::unique_ptr<ImageDecoder>(std::move(decoder));
}

}  // namespace

const std::vector<ImageFormat>& image_formats() {
  static const std::vector<ImageFormat> kFormats = {
      {"JPEG", {".jpg", ".jpeg"},
       [] { return opened<TurboJpeg>("PROFGPU_TURBOJPEG_LIBRARY", {"libturbojpeg.so.0"}, "libturbojpeg0"); }},
      {"WebP", {".webp"}, [] {
         return opened<WebP>("PROFGPU_WEBP_LIBRARY", {"libwebp.so.7", "libwebp.so.6"}, "libwebp");
       }}};
  return kFormats;
}

bool is_token_shard(std::string_view path) {
  const std::string name = lower_case(base_name(path));
  for (const std::string_view ending : {".bin", ".npy", ".tok", ".tokens", ".ds", ".mds"})
    if (name.ends_with(ending)) return true;
  return false;
}

}  // namespace profgpu
