#include "trace/import/whole_text.h"

#include <cstdint>

#include "base/text_source.h"

namespace profgpu {

std::string whole_text(TextSource& source, size_t most) {
  constexpr size_t kBlock = 1 << 20;
  std::string text;
  for (size_t got = 1; got > 0 && text.size() < most;) {
    const size_t had = text.size();
    text.resize(had + kBlock);
    got = source.read(text.data() + had, kBlock);
    text.resize(had + got);
  }
  return text;
}

Result<std::string> whole_text(const std::string& path, bool& broken) {
  auto source = open_text(path);
  if (!source) return source.error();
  std::string text = whole_text(**source, SIZE_MAX);
  broken = (*source)->end() != TextSource::End::kComplete;
  return text;
}

}  // namespace profgpu
