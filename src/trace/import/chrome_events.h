// Events in Chrome's JSON as tools other than PyTorch's profiler write it, one after the other. The whole text is in
// memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "trace/trace.h"

namespace profgpu {

struct ChromeEvent {
  std::string name, category;
  char phase = 0;
  std::string process, thread;             ///< numbers or texts, as the file has them
  std::optional<int64_t> start_ns, duration_ns;
  std::string_view arguments;              ///< a JSON object; empty: none
};

/// How far the file could be read.
struct ChromeRead {
  /// Other members of the file's objects, as their JSON text; those that are long are left out.
  std::vector<std::pair<std::string, std::string>> fields;
  int64_t events = 0;
  int64_t invalid_text = 0;
  bool complete = false;

  /// What is missing, as issues of the trace.
  void add_issues(Trace& trace) const;
};

/// Calls `each` with every event of the file, up to where it is cut or damaged. Several objects may follow each other,
/// as may events without an object around them. The error: it cannot be opened.
Result<ChromeRead> read_chrome_events(const std::string& path, const std::function<void(const ChromeEvent&)>& each);

/// A member of a JSON object: the text of a string, the digits of a number; empty: it is not there, or neither.
std::string json_member(std::string_view object, std::string_view key);

}  // namespace profgpu
