#include "inject/options.h"

#include <string.h>

namespace profgpu::inject {
namespace {

struct Piece {
  const char* begin;
  const char* end;

  [[nodiscard]] bool is(const char* text) const {
    const size_t length = strlen(text);
    return static_cast<size_t>(end - begin) == length && memcmp(begin, text, length) == 0;
  }
  // Up to the separator; what stands behind it stays.
  Piece cut(char separator) {
    const auto* at = static_cast<const char*>(memchr(begin, separator, static_cast<size_t>(end - begin)));
    const Piece head{begin, at == nullptr ? end : at};
    begin = at == nullptr ? end : at + 1;
    return head;
  }
  // What stands behind the last separator, which goes too.
  Piece cut_last(char separator) {
    const char* at = end;
    while (at != begin && at[-1] != separator) --at;
    const Piece tail{at, end};
    end = at == begin ? at : at - 1;
    return tail;
  }
  // Digits only; at most `most`.
  bool number(int64_t& value, int64_t most) const {
    if (begin == end || end - begin > 18) return false;
    int64_t n = 0;
    for (const char* at = begin; at != end; ++at) {
      if (*at < '0' || *at > '9') return false;
      n = n * 10 + (*at - '0');
    }
    if (n > most) return false;
    value = n;
    return true;
  }
};

bool read_bounds(Piece first, Piece end, Options& options) {
  int64_t a = 0, b = INT64_MAX;
  if (first.begin != first.end && !first.number(a, INT64_MAX)) return false;
  if (end.begin != end.end && !end.number(b, INT64_MAX)) return false;
  if (a >= b) return false;
  options.first = a;
  options.end = b;
  return true;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// %2C stands for a comma, as in addresses; other bytes for themselves.
bool read_name(Piece text, Options& options) {
  size_t length = 0;
  for (const char* at = text.begin; at != text.end; ++at) {
    if (length + 1 == sizeof options.range) return false;
    char c = *at;
    if (c == '%' && text.end - at > 2 && hex(at[1]) >= 0 && hex(at[2]) >= 0) {
      c = static_cast<char>(hex(at[1]) * 16 + hex(at[2]));
      at += 2;
    }
    options.range[length++] = c;
  }
  options.range[length] = 0;
  return length > 0;
}

constexpr int64_t kMillion = 1'000'000;

bool read_time(Piece delay, Piece duration, Options& options) {
  int64_t a = 0, b = 0;
  const bool for_ever = duration.begin == duration.end;
  if (delay.begin != delay.end && !delay.number(a, INT64_MAX / kMillion)) return false;
  if (!for_ever && !duration.number(b, INT64_MAX / kMillion)) return false;
  options.delay_ns = a * kMillion;
  options.duration_ns = for_ever ? INT64_MAX : b * kMillion;
  return true;
}

bool read_window(Piece value, Options& options) {
  WindowKind kind{};
  const Piece type = value.cut(':');
  if (type.is("all")) {
    kind = WindowKind::kAll;
  } else if (type.is("cudaProfilerApi")) {
    kind = WindowKind::kCudaProfilerApi;
  } else if (type.is("manual")) {
    kind = WindowKind::kManual;
  } else if (type.is("steps")) {
    kind = WindowKind::kSteps;
    const Piece first = value.cut(':');
    if (!read_bounds(first, value, options)) return false;
  } else if (type.is("range")) {
    kind = WindowKind::kRange;
    const Piece end = value.cut_last(':');
    const Piece first = value.cut_last(':');
    if (!read_bounds(first, end, options) || !read_name(value, options)) return false;
  } else if (type.is("time")) {
    kind = WindowKind::kTime;
    const Piece delay = value.cut(':');
    if (!read_time(delay, value, options)) return false;
  } else {
    return false;
  }
  options.window = kind;
  return true;
}

bool read_switch(Piece value, bool& on) {
  if (!value.is("0") && !value.is("1")) return false;
  on = value.is("1");
  return true;
}

bool read_option(Piece key, Piece value, Options& options) {
  int64_t n = 0;
  if (key.is("window")) return read_window(value, options);
  if (key.is("nvtx")) return read_switch(value, options.nvtx);
  if (key.is("nccl")) return read_switch(value, options.nccl);
  if (key.is("cuda")) return read_switch(value, options.cuda);
  if (key.is("graphs")) {
    options.graph_nodes = value.is("node");
    return value.is("node") || value.is("graph");
  }
  if (key.is("flush_ms") && value.number(n, 3'600'000)) {
    options.flush_ns = (n < 10 ? 10 : n) * kMillion;
    return true;
  }
  if (key.is("memory_mb") && value.number(n, 1 << 20)) {
    // Below 96 MiB the tables of fixed size would not fit.
    options.memory_bytes = static_cast<size_t>(n < 96 ? 96 : n) << 20;
    return true;
  }
  return false;
}

}  // namespace

void parse_options(const char* text, Options& options, Text<256>& not_understood) {
  if (text == nullptr) return;
  Piece rest{text, text + strlen(text)};
  while (rest.begin != rest.end) {
    const Piece whole = rest.cut(',');
    Piece value = whole;
    const Piece key = value.cut('=');
    if (whole.begin == whole.end || read_option(key, value, options)) continue;
    if (not_understood.length() > 0) not_understood << ", ";
    for (const char* at = whole.begin; at != whole.end; ++at) not_understood << *at;
  }
}

}  // namespace profgpu::inject
