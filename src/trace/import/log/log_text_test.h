// For tests of families: a text, read as a log.
#pragma once

#include <string>
#include <string_view>

#include "trace/import/log/log_reader.h"

namespace profgpu {

/// Fed in pieces of `piece` bytes.
inline RunLog log_of(std::string_view text, size_t piece = 1 << 20) {
  LogReader reader;
  for (size_t at = 0; at < text.size(); at += piece) {
    std::string padded(text.substr(at, piece));
    const size_t size = padded.size();
    padded.append(64, '\0');
    reader.feed({padded.data(), size});
  }
  reader.end();
  return reader.log();
}

inline const LogStep& only_step(const RunLog& log) { return log.ranks.at(0).steps.at(0); }

}  // namespace profgpu
