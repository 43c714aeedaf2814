// Triton's Proton. `.hatchet` is a tree of scopes and kernels with sums of time and counts: when kernels ran is not in
// it, so they stand one after the other. `.chrome_trace` has kernels with their times and the scopes around each.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "trace/import/chrome_events.h"
#include "trace/import/importer.h"
#include "trace/import/recording_rows.h"
#include "trace/import/said_issues.h"
#include "trace/import/whole_text.h"
#include "trace/no_timeline.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr int kMaxProtonDepth = 200;
constexpr int64_t kMaxProtonRows = 1'000'000;   // launches shown one by one

struct ProtonNode {
  std::string name;
  int64_t time_ns = 0, count = 0, device = 0;   // its own, without its children's
  std::vector<ProtonNode> children;
};

/// Reads a file's tree and its devices.
class HatchetReader {
 public:
  explicit HatchetReader(std::string& text) : reader_(JsonReader::over(text)) {}

  bool read() {
    bool first = true;
    return read_array(reader_, [&] {
      const bool tree = first;
      first = false;
      return tree ? node(root, 0) : devices_by_type();
    });
  }

  ProtonNode root;
  std::vector<DeviceProperties> devices;
  int64_t replaced = 0, out_of_range = 0, beyond = 0;

 private:
  bool node(ProtonNode& to, int depth) {
    return read_object(reader_, [&](string_view key) {
      if (key == "frame")
        return members([&](string_view name) { return name == "name" ? text(to.name) : reader_.skip_value(); });
      if (key == "metrics") return members([&](string_view name) { return metric(name, to); });
      if (key != "children" || reader_.peek() != '[') return reader_.skip_value();
      return read_array(reader_, [&] {
        if (depth >= kMaxProtonDepth || reader_.peek() != '{') return ++beyond, reader_.skip_value();
        return node(to.children.emplace_back(), depth + 1);
      });
    });
  }
  template <class Member>
  bool members(Member&& member) {
    return reader_.peek() == '{' ? read_object(reader_, member) : reader_.skip_value();
  }
  // "time (ns)" and "count", in older versions "Time (ns)" and "Count".
  bool metric(string_view key, ProtonNode& to) {
    const std::string name = lower_case(key);
    std::string value;
    if (!text(value)) return false;
    int64_t* const number = name == "time (ns)" ? &to.time_ns
                            : name == "count" ? &to.count
                            : name == "device_id" || name == "deviceid" ? &to.device : nullptr;
    if (number == nullptr) return true;
    const auto parsed = scaled_decimal(value, 0);
    if (parsed && *parsed >= 0 && *parsed < (number == &to.device ? 1024 : kLongestNs)) *number = *parsed;
    else ++out_of_range;
    return true;
  }
  bool text(std::string& out) {
    JsonString token;
    if (reader_.peek() == '{' || reader_.peek() == '[') return reader_.skip_value();
    if (reader_.peek() == '"') {
      if (!reader_.string(token)) return false;
      out = unescaped(token, replaced);
      return true;
    }
    string_view scalar;
    if (!reader_.scalar(scalar)) return false;
    out = scalar;
    return true;
  }
  // {"CUDA": {"0": {"arch": "90", "num_sms": 132, ...}}}
  bool devices_by_type() {
    return members([&](string_view type) {
      const std::string kind(type);
      return members([&](string_view number) {
        DeviceProperties device;
        device.id = static_cast<int32_t>(std::clamp<int64_t>(whole_number(number).value_or(0), 0, 1023));
        const bool good = members([&](string_view key) {
          const bool arch = key == "arch", multiprocessors = key == "num_sms";
          std::string value;
          if (!text(value)) return false;
          const auto whole = whole_number(value);
          if (multiprocessors && whole)
            device.multiprocessors = static_cast<int32_t>(std::clamp<int64_t>(*whole, 0, 4096));
          if (!arch || !whole || *whole < 10 || *whole >= 1000 || kind != "CUDA") return true;
          device.compute_major = static_cast<int32_t>(*whole / 10);
          device.compute_minor = static_cast<int32_t>(*whole % 10);
          return true;
        });
        if (devices.size() < 1024) devices.push_back(device);
        return good;
      });
    });
  }

  JsonReader reader_;
};

/// Rows of a tree: scopes as ranges around their kernels, one after the other.
class HatchetRows {
 public:
  HatchetRows(const ProtonNode& root, Shard& shard) : shard_(shard) {
    const int64_t launches = count(root);
    whole_ = launches > kMaxProtonRows;
    thread_ = static_cast<uint16_t>(shard.thread("0", "scopes"));
    shard.name_thread("0", "scopes", "scopes of Proton");
    add(root, true);
  }
  /// A row stands for all launches of a node.
  [[nodiscard]] bool whole() const { return whole_; }

 private:
  static int64_t count(const ProtonNode& node) {
    int64_t sum = node.time_ns > 0 ? std::max<int64_t>(node.count, 1) : 0;
    for (const ProtonNode& child : node.children)
      if (__builtin_add_overflow(sum, count(child), &sum)) return INT64_MAX;
    return sum;
  }
  void add(const ProtonNode& node, bool root = false) {
    const int64_t start = now_ns_;
    ++shard_.events;
    if (node.time_ns > 0) launches(node);
    for (const ProtonNode& child : node.children) add(child);
    if (root || node.children.empty() || now_ns_ == start || now_ns_ - start >= kLongestNs) return;
    HostRow row;
    row.start_ns = start;
    row.duration_ns = now_ns_ - start;
    row.name = shard_.strings.intern(node.name.empty() ? "(no name)" : node.name);
    row.kind = HostKind::kAnnotation;
    row.thread = thread_;
    shard_.host.push_back(row);
  }
  // As many as were counted, each with the mean; what does not divide is the first ones'.
  void launches(const ProtonNode& node) {
    const int64_t rows = whole_ ? 1 : std::max<int64_t>(node.count, 1);
    for (int64_t i = 0; i < rows; ++i) {
      if (now_ns_ >= INT64_MAX / 4) return;
      ActivityRow row;
      row.start_ns = now_ns_;
      row.duration_ns = node.time_ns / rows + (i < node.time_ns % rows);
      row.name = shard_.strings.intern(node.name.empty() ? "(no name)" : node.name);
      row.queue = shard_.queue({static_cast<int32_t>(node.device), 0, 0});
      shard_.activity.push_back(row);
      now_ns_ += row.duration_ns;
    }
  }

  Shard& shard_;
  bool whole_ = false;
  uint16_t thread_ = 0;
  int64_t now_ns_ = 0;
};

bool sniff_hatchet(string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == head.npos || head[begin] != '[') return false;
  const size_t next = head.find_first_not_of(" \t\r\n", begin + 1);
  return next != head.npos && head[next] == '{' && contains(head, "\"frame\"") &&
         (contains(head, "\"children\"") || contains(head, "\"metrics\"")) && !contains(head, "\"ph\"");
}

Result<Trace> read_hatchet(const std::string& path, const ImportOptions& options) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  const bool cycles = contains(*text, "\"cycles\"");
  HatchetReader reader(*text);
  const bool complete = reader.read() && !broken;
  TraceBuilder builder;
  builder.header().recorder = Recorder::kOther;
  builder.header().devices = reader.devices;
  const HatchetRows rows(reader.root, builder.shard());
  Trace trace = builder.finish(options.threads);
  if (trace.activity.size() == 0 && cycles)
    return Error{path + ": a profile of Proton that counts cycles within kernels, which profgpu does not read",
                 "record whole kernels: proton.start(\"profile\"), without backend=\"instrumentation\""};
  if (trace.activity.size() == 0)
    return Error{path + ": a profile of Proton without any kernel's time" + (complete ? "" : " (the file is damaged)"),
                 "proton.start(\"profile\"), and proton.finalize() after the kernels have run"};
  trace.metadata.emplace_back(kNoTimelineField, "profile of Proton");
  trace.issues.push_back({TraceIssueKind::kNote, 1,
                          rows.whole() ? "a profile of Proton has sums, no times: each kernel's launches are one "
                                         "record, since there are too many to show one by one"
                                       : "a profile of Proton has sums, no times: launches of one kernel have their "
                                         "mean duration, and stand one after the other"});
  if (!complete) add_cut(trace);
  add_count(trace, TraceIssueKind::kOutOfRange, reader.out_of_range, "metrics that are not in range: {}");
  add_count(trace, TraceIssueKind::kDamaged, reader.beyond, "nodes that are nested too deeply, or are none: {}");
  add_count(trace, TraceIssueKind::kInvalidText, reader.replaced, "characters in names that are not valid UTF-8: {}");
  return trace;
}

/// Kernels of Proton's traces, and the scopes around successive ones of a stream.
class ProtonTrace {
 public:
  explicit ProtonTrace(Shard& shard) : shard_(shard) {}

  void take(const ChromeEvent& event) {
    if (event.phase != 'X') return;
    // What warps do within a kernel counts cycles.
    if (contains(event.process, " Core") || event.category != "kernel") return void(++inner);
    ++shard_.events;
    if (!event.start_ns || !event.duration_ns || *event.start_ns < 0 || *event.start_ns >= INT64_MAX / 4 ||
        *event.duration_ns < 0 || *event.duration_ns >= kLongestNs)
      return void(++shard_.issues[TraceIssueKind::kOutOfRange]);
    ActivityRow row;
    row.start_ns = *event.start_ns;
    row.duration_ns = *event.duration_ns;
    row.name = shard_.strings.intern(event.name.empty() ? "(no name)" : event.name);
    const auto stream = leading_number(event.thread.substr(std::min(event.thread.find_first_of("0123456789"),
                                                                    event.thread.size())));
    row.queue = shard_.queue({0, stream && stream->value < 1e15 ? static_cast<int64_t>(stream->value) : 0, 0});
    shard_.activity.push_back(row);
    kernels_[event.thread].push_back({row.start_ns, row.start_ns + row.duration_ns, stack_of(event)});
  }
  void finish() {
    for (auto& [stream, kernels] : kernels_) {
      std::ranges::stable_sort(kernels, {}, &Kernel::start_ns);
      thread_ = static_cast<uint16_t>(shard_.thread("0", "scopes of stream " + stream));
      for (const Kernel& k : kernels) {
        size_t same = 0;
        while (same < open_.size() && same < k.stack.size() && open_[same].name == k.stack[same]) ++same;
        close_to(same);
        for (size_t i = same; i < k.stack.size(); ++i) open_.push_back({k.stack[i], k.start_ns, k.end_ns});
        for (Open& o : open_) o.end_ns = std::max(o.end_ns, k.end_ns);
      }
      close_to(0);
    }
  }

  int64_t inner = 0;

 private:
  struct Kernel {
    int64_t start_ns, end_ns;
    std::vector<StringId> stack;
  };
  struct Open {
    StringId name;
    int64_t start_ns, end_ns;
  };
  // Without the root, and the kernel itself.
  std::vector<StringId> stack_of(const ChromeEvent& event) {
    std::vector<StringId> stack;
    JsonReader reader(event.arguments.data(), event.arguments.data() + event.arguments.size());
    read_object(reader, [&](string_view key) {
      if (key != "call_stack" || reader.peek() != '[') return reader.skip_value();
      return read_array(reader, [&] {
        JsonString token;
        if (!reader.string(token)) return reader.skip_value();
        const std::string name = unescaped(token, shard_.issues[TraceIssueKind::kInvalidText]);
        if (stack.size() < kMaxProtonDepth && (!stack.empty() || name != "ROOT") && !name.empty())
          stack.push_back(shard_.strings.intern(name));
        return true;
      });
    });
    if (!stack.empty() && shard_.strings[stack.back()] == event.name) stack.pop_back();
    return stack;
  }
  void close_to(size_t depth) {
    for (; open_.size() > depth; open_.pop_back()) {
      HostRow row;
      row.start_ns = open_.back().start_ns;
      row.duration_ns = open_.back().end_ns - row.start_ns;
      row.name = open_.back().name;
      row.kind = HostKind::kAnnotation;
      row.thread = thread_;
      if (row.duration_ns < kLongestNs) shard_.host.push_back(row);
    }
  }

  Shard& shard_;
  std::map<std::string, std::vector<Kernel>> kernels_;   // by stream
  std::vector<Open> open_;
  uint16_t thread_ = 0;
};

bool sniff_proton_trace(string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  return begin != head.npos && head[begin] == '{' && contains(head, "\"traceEvents\"") &&
         contains(head, "\"call_stack\"");
}

Result<Trace> read_proton_trace(const std::string& path, const ImportOptions& options) {
  TraceBuilder builder;
  builder.header().recorder = Recorder::kOther;
  ProtonTrace events(builder.shard());
  auto read = read_chrome_events(path, [&](const ChromeEvent& event) { events.take(event); });
  if (!read) return read.error();
  events.finish();
  const IssueCounts counts = builder.issue_counts();
  Trace trace = builder.finish(options.threads);
  if (trace.activity.size() == 0)
    return Error{path + (events.inner > 0 ? ": a trace of what happens within kernels, which profgpu does not read"
                                          : ": a trace of Proton without any kernels"),
                 "proton.start(\"profile\", data=\"trace\")"};
  read->add_issues(trace);
  add_counts(trace, counts,
             {{TraceIssueKind::kOutOfRange, "kernels left out because a time is missing or out of range: {}"}});
  add_count(trace, TraceIssueKind::kUnknownRows, events.inner, "events within kernels, which are not read: {}");
  return trace;
}

}  // namespace

extern const Importer kProton, kProtonTrace;
const Importer kProton = {.name = "proton",
                          .noun = "Proton profile",
                          .summary = "Triton's Proton, a tree of scopes and kernels with their sums",
                          .examples = "proton.hatchet, proton.hatchet.gz",
                          .sniff = sniff_hatchet,
                          .read = read_hatchet};
const Importer kProtonTrace = {.name = "proton-trace",
                               .noun = "Proton trace",
                               .summary = "Triton's Proton with data=\"trace\": kernels by stream and their scopes",
                               .examples = "proton.chrome_trace",
                               .sniff = sniff_proton_trace,
                               .read = read_proton_trace};

}  // namespace profgpu
