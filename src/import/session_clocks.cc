#include "import/session_clocks.h"

#include <algorithm>
#include <vector>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text_source.h"

namespace profgpu {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr int64_t kSaysNothing_ns = 16'000'000'000;   // the kernel's largest error: its clock is left to itself

// null, or an object of which other members may come.
bool read_statement(JsonReader& reader, std::vector<ClockStatement>& all) {
  std::string_view token;
  if (reader.peek() != '{') return reader.skip_value();
  std::optional<bool> synchronised;
  std::optional<int64_t> error;
  const bool whole = read_object(reader, [&](std::string_view key) {
    const bool known = key == "synchronised" || key == "max_error_ns";
    if (!known || !reader.raw_value(token)) return !known && reader.skip_value();
    if (key == "synchronised" && (token == "true" || token == "false")) synchronised = token == "true";
    if (key == "max_error_ns") error = whole_number(token);
    return true;
  });
  if (!whole) return false;
  if (!synchronised || !error || *error < 0) return true;
  all.push_back({*synchronised && *error < kSaysNothing_ns, *error});
  return true;
}

}  // namespace

void SessionClocks::add(const std::string& path) {
  auto source = open_text(path);
  if (!source) return;
  std::string text(kMostBytes + kJsonPadding, '\0');
  const size_t size = (*source)->read(text.data(), kMostBytes);
  JsonReader reader(text.data(), text.data() + size);
  std::string host;
  std::vector<ClockStatement> statements;
  const bool whole = read_object(reader, [&](std::string_view key) {
    if (key == "host" && reader.peek() == '"') {
      JsonString name;
      int64_t replaced = 0;
      if (!reader.string(name)) return false;
      host = unescaped(name, replaced);
      return true;
    }
    if (key != "clock" || reader.peek() != '{') return reader.skip_value();
    return read_object(reader, [&](std::string_view) { return read_statement(reader, statements); });
  });
  if (!whole || host.empty()) return;
  for (const ClockStatement& s : statements) add(host, s);
}

void SessionClocks::add(const std::string& host, ClockStatement statement) {
  const auto [at, fresh] = by_host_.try_emplace(host, statement);
  if (fresh) return;
  at->second.synchronised &= statement.synchronised;
  at->second.error_ns = std::max(at->second.error_ns, statement.error_ns);
}

std::optional<ClockStatement> SessionClocks::of(const std::string& host) const {
  const auto at = by_host_.find(host);
  return at != by_host_.end() ? std::optional(at->second) : std::nullopt;
}

}  // namespace profgpu
