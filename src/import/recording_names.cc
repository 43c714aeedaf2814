#include "import/recording_names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "base/text.h"

namespace profgpu {
namespace {

// The demangler's time and output grow with the nesting of a name; no compiler writes longer ones.
constexpr size_t kLongestMangled = 16 << 10;

template <size_t N>
std::string_view at(const std::string_view (&names)[N], int i) {
  return i >= 0 && static_cast<size_t>(i) < N ? names[i] : names[0];
}

std::string_view memory_kind_name(int kind) {
  constexpr std::string_view kNames[] = {"Unknown", "Pageable", "Pinned", "Device",
                                         "Array", "Managed", "Device Static", "Managed Static"};
  return at(kNames, kind);
}

bool take_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

}  // namespace

std::string demangled(std::string_view name) {
  std::string text(name);
  if (!name.starts_with("_Z") || name.size() > kLongestMangled) return text;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> out(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status),
                                                        &std::free);
  return status == 0 && out ? std::string(out.get()) : text;
}

std::string copy_name(int copy_kind, int from_kind, int to_kind) {
  constexpr std::string_view kNames[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                         "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return fmt::format("Memcpy {} ({} -> {})", at(kNames, copy_kind), memory_kind_name(from_kind),
                     memory_kind_name(to_kind));
}

std::string set_name(int memory_kind) { return fmt::format("Memset ({})", memory_kind_name(memory_kind)); }

std::string_view call_name(std::string_view recorded) {
  const size_t v = recorded.rfind("_v");
  if (v == recorded.npos || recorded.size() - v < 6) {
    // The driver's own versions have one digit.
  } else {
    bool digits = true;
    for (const char c : recorded.substr(v + 2)) digits = digits && is_digit(c);
    if (digits) recorded = recorded.substr(0, v);
  }
  // Compiled for a default stream per thread; the same call otherwise.
  if (!take_end(recorded, "_ptsz")) take_end(recorded, "_ptds");
  return recorded;
}

std::string_view sync_name(int type) {
  constexpr std::string_view kNames[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return at(kNames, type);
}

std::string_view overhead_name(uint32_t type) {
  switch (type) {
    case 1: return "Driver Compiler";
    case 1 << 16: return "Buffer Flush";
    case 2 << 16: return "Instrumentation";
    case 3 << 16: return "Resource";
    case 4 << 16: return "Runtime Triggered Module Loading";
    case 5 << 16: return "Lazy Function Loading";
    case 6 << 16: return "Command Buffer Full";
    case 7 << 16: return "Activity Buffer Request";
    case 8 << 16: return "UVM Activity Init";
    default: return "Profiler Overhead";
  }
}

}  // namespace profgpu
