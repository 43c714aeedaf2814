// The one file in a zip archive (PKWARE's APPNOTE), as people send them: where its bytes are.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace profgpu {

struct ZipFile {
  int64_t offset = 0;       ///< of its bytes
  int64_t packed_bytes = 0;
  bool deflated = false;    ///< else stored as it is
};

/// The error: it is damaged, encrypted, or holds several files. Folders and what macOS adds do not count; of an archive
/// that torch.save() wrote it is the pickle.
Result<ZipFile> file_in_zip(int fd, int64_t file_bytes);

}  // namespace profgpu
