#include "trace/import/chrome_events.h"

#include <fmt/format.h>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/said_issues.h"
#include "trace/import/whole_text.h"

namespace profgpu {
namespace {

using std::string_view;

class ChromeEventReader {
 public:
  ChromeEventReader(std::string& text, const std::function<void(const ChromeEvent&)>& each)
      : reader_(JsonReader::over(text)), each_(each) {
    if (string_view(text).starts_with("\xEF\xBB\xBF")) reader_.seek(text.data() + 3);
  }

  ChromeRead read() {
    do {
      read_.complete = reader_.peek() == '[' ? events() : object();
    } while (read_.complete && reader_.peek() != 0);
    return read_;
  }

 private:
  bool object() {
    return read_object(reader_, [&](string_view key) {
      if (key == "traceEvents" && reader_.peek() == '[') return events();
      constexpr size_t kLongest = 4096, kMaxFields = 64;
      const std::string name(key);   // the reader's key moves on
      string_view raw;
      if (!reader_.raw_value(raw)) return false;
      if (raw.size() <= kLongest && read_.fields.size() < kMaxFields) read_.fields.emplace_back(name, raw);
      return true;
    });
  }
  bool events() {
    return read_array(reader_, [&] {
      if (reader_.peek() != '{') return reader_.skip_value();
      event_ = {};
      if (!read_object(reader_, [&](string_view key) { return member(key); })) return false;
      ++read_.events;
      each_(event_);
      return true;
    });
  }
  bool member(string_view key) {
    if (key == "name") return text(event_.name);
    if (key == "cat") return text(event_.category);
    if (key == "pid") return text(event_.process);
    if (key == "tid") return text(event_.thread);
    if (key == "ph") {
      std::string phase;
      if (!text(phase)) return false;
      event_.phase = phase.size() == 1 ? phase.front() : '\0';
      return true;
    }
    string_view raw;
    if (!reader_.raw_value(raw)) return false;
    if (key == "args" && raw.starts_with('{')) event_.arguments = raw;
    // Microseconds.
    if (key == "ts") event_.start_ns = scaled_decimal(raw, 3);
    if (key == "dur") event_.duration_ns = scaled_decimal(raw, 3);
    return true;
  }
  // A string, or a number as text.
  bool text(std::string& out) {
    const char first = reader_.peek();
    if (first == '{' || first == '[') return reader_.skip_value();
    JsonString token;
    if (first == '"') {
      if (!reader_.string(token)) return false;
      out = unescaped(token, read_.invalid_text);
      return true;
    }
    string_view scalar;
    if (!reader_.scalar(scalar)) return false;
    out = scalar;
    return true;
  }

  JsonReader reader_;
  const std::function<void(const ChromeEvent&)>& each_;
  ChromeEvent event_;
  ChromeRead read_;
};

}  // namespace

void ChromeRead::add_issues(Trace& trace) const {
  if (!complete)
    trace.issues.push_back({TraceIssueKind::kTruncated, 1,
                            fmt::format("the file ends early, or is damaged there: {} events that come before were "
                                        "read",
                                        format_count(events))});
  add_count(trace, TraceIssueKind::kInvalidText, invalid_text, "characters in names that are not valid UTF-8: {}");
}

Result<ChromeRead> read_chrome_events(const std::string& path, const std::function<void(const ChromeEvent&)>& each) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  ChromeRead read = ChromeEventReader(*text, each).read();
  read.complete &= !broken;
  return read;
}

std::string json_member(string_view object, string_view key) {
  std::string padded(object);
  JsonReader reader = JsonReader::over(padded);
  std::string value;
  read_object(reader, [&](string_view name) {
    if (name != key) return reader.skip_value();
    if (reader.peek() == '"') (void)read_text(reader, value);
    string_view scalar;
    const char next = reader.peek();
    if (value.empty() && next != '"' && next != '{' && next != '[' && reader.scalar(scalar)) value = scalar;
    return false;   // found
  });
  return value;
}

}  // namespace profgpu
