// What a data loader does with files beside reading them: decoding images, picking sequences of tokens.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace profgpu {

/// A decoder of a library that is opened at run time. Threads may use one at once.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  /// Into RGB of full size, which is thrown away. The error: this is no such image.
  virtual Status decode(std::string_view bytes) const = 0;
};

struct ImageFormat {
  std::string_view name;                          ///< "JPEG"
  std::vector<std::string_view> endings;          ///< of file names, lower case
  Result<std::unique_ptr<ImageDecoder>> (*open)();
};
const std::vector<ImageFormat>& image_formats();

/// Whether the name is one of tokenised shards: rows of numbers without a frame of each sample.
bool is_token_shard(std::string_view path);

}  // namespace profgpu
