// Any bytes as a recording, as they are and again with every chunk's checksum made right, so that what stands behind
// the checksums is reached too.
#include <algorithm>
#include <cstring>

#include "record/wire/chunk_reader.h"
#include "record/wire/chunk_writer.h"
#include "tests/fuzz/whole_report.h"

namespace {

// Chunks one after the other; one that says that it is longer than the file ends with it.
std::string sealed(const uint8_t* data, size_t size) {
  using namespace profgpu::wire;
  std::string file(reinterpret_cast<const char*>(data), size);
  if (file.size() < sizeof(FileHeader)) return file;
  FileHeader file_header{{}, kFormatVersion, 0};
  std::copy(std::begin(kFileMagic), std::end(kFileMagic), file_header.magic);
  std::memcpy(file.data(), &file_header, sizeof file_header);
  for (size_t at = sizeof file_header; file.size() - at >= sizeof(ChunkHeader);) {
    ChunkHeader header;
    std::memcpy(&header, file.data() + at, sizeof header);
    const size_t length = std::min<size_t>(header.length, file.size() - at - sizeof header);
    at += seal_chunk(reinterpret_cast<uint8_t*>(file.data()) + at, static_cast<ChunkKind>(header.kind), length);
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  profgpu::report_on_bytes(data, size);
  const std::string file = sealed(data, size);
  profgpu::report_on_bytes(file.data(), file.size());
  return 0;
}
