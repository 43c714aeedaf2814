// PyTorch's memory snapshots: pickles of torch.cuda.memory._dump_snapshot(), and nothing of Python is run for them.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/torch_snapshot_rows.h"

namespace profgpu {
namespace {

/// Says how far the file is read.
class ProgressSource : public TextSource {
 public:
  ProgressSource(std::unique_ptr<TextSource> from, const ImportOptions& options)
      : from_(std::move(from)), options_(options) {}
  size_t read(char* buffer, size_t size) override {
    const size_t got = from_->read(buffer, size);
    end_ = from_->end();
    problem_ = from_->problem();
    if (options_.progress) options_.progress(from_->file_bytes_read(), from_->file_bytes());
    return got;
  }

 private:
  std::unique_ptr<TextSource> from_;
  const ImportOptions& options_;
};

// Arguments of protocol 0, a line each, that come before what is called with them.
std::string_view after_arguments(std::string_view head) {
  while (!head.empty() && std::string_view("SVIFL").find(head.front()) != head.npos) {
    const size_t end = head.find('\n');
    if (end == head.npos) break;
    head.remove_prefix(end + 1);
  }
  return head;
}

// Two lines of protocol 0 that import, "cos" and "system", and what may follow them.
bool imports_in_text(std::string_view head) {
  if (head.starts_with("(")) head = after_arguments(head.substr(1));
  if (!head.starts_with("c") && !head.starts_with("i")) return false;
  head.remove_prefix(1);
  for (int line = 0; line < 2; ++line) {
    const size_t end = head.find('\n');
    if (end == head.npos || end == 0) return false;
    const std::string_view name = head.substr(0, end);
    const bool is_name =
        std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.'; });
    if (!is_name) return false;
    head.remove_prefix(end + 1);
  }
  return !head.empty() && std::string_view("(p)q.").find(head.front()) != head.npos;
}

// Any pickle, so that one which would run code is refused by name.
bool may_be_pickle(std::string_view head) {
  constexpr char kProto = '\x80', kNewest = 5;
  if (head.size() >= 2 && head[0] == kProto && head[1] >= 0 && head[1] <= kNewest) return true;
  for (const std::string_view start : {"(dp", "(lp", "}q", "]q"})
    if (head.starts_with(start)) return true;
  return imports_in_text(head);
}

Status add_ends(const TextSource& source, const std::string& path, const PickleRead& read, Trace& trace) {
  using End = TextSource::End;
  if (!read.cut) return ok();
  if (source.end() == End::kUnreadable) return Error{path + ": " + source.problem()};
  const auto& snapshot = *trace.snapshots.front();
  if (snapshot.segments.empty() && snapshot.traces.empty())
    return Error{path + ": ends before anything of the snapshot can be read", "copy or record it again"};
  const bool damaged = source.end() == End::kDamaged;
  const std::string why =
      source.end() == End::kTruncated || damaged ? source.problem() : "ends in the middle of the pickle";
  trace.issues.push_back(
      {damaged ? TraceIssueKind::kDamaged : TraceIssueKind::kTruncated, 1,
       fmt::format("{} {}: {} segments and {} events of it could be read; totals and peak are of these alone", path,
                   why, format_count(static_cast<int64_t>(snapshot.segments.size())), format_count(trace.events))});
  return ok();
}

Result<Trace> read_snapshot(const std::string& path, const ImportOptions& options) {
  auto opened = open_text(path);
  if (!opened) return opened.error();
  ProgressSource source(*std::move(opened), options);
  SnapshotRows rows;
  Trace trace;
  PickleRead read;
  {
    PickleReader<SnapshotRows> reader(source, rows);
    auto got = reader.read();
    if (!got) return got.error().within(path);
    read = *got;
    if (!rows.finish(reader.objects(), read.root) && !read.cut)
      return Error{path + ": a pickle, but not a PyTorch memory snapshot: neither segments nor device_traces are in it",
                   "torch.cuda.memory._dump_snapshot(FILE) writes one"};
  }
  rows.snapshot.path = path;
  rows.snapshot.cut = read.cut;
  if (rows.unread > 0 && rows.snapshot.segments.empty() && rows.snapshot.traces.empty())
    return Error{path + ": no segment and no event of it can be read: their keys are others, or come one at a time",
                 "protocol 0 writes one key at a time: if the file has it, pickle.dump(snapshot, file, protocol=4) writes another"};
  for (const DeviceEvents& d : rows.snapshot.traces) trace.events += static_cast<int64_t>(d.count);
  const bool timed = rows.snapshot.first_us != AllocationEvent::kNoTime;
  trace.windows = {timed ? Interval{1000 * rows.snapshot.first_us, 1000 * rows.snapshot.last_us} : Interval{}};
  trace.snapshots = {std::make_shared<const MemorySnapshot>(std::move(rows.snapshot))};
  trace.cut_off = read.cut;
  if (Status status = add_ends(source, path, read, trace); !status) return status.error();
  // A cut file has one that is not whole; that it is cut is said already.
  if (rows.unread > 0 && !read.cut)
    trace.issues.push_back({TraceIssueKind::kDamaged, rows.unread,
                            fmt::format("{} {} of the snapshot lack a size or blocks; they are left out", rows.unread,
                                        rows.unread == 1 ? "segment or event" : "segments and events")});
  if (!rows.unknown.empty()) {
    int64_t count = 0;
    std::string names;
    for (const auto& [name, n] : rows.unknown)
      count += n, names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", name, n);
    trace.issues.push_back(
        {TraceIssueKind::kUnknownRows, count,
         fmt::format("keys and actions that this version of profgpu does not know, skipped: {}", names)});
  }
  if (rows.out_of_range > 0)
    trace.issues.push_back(
        {TraceIssueKind::kOutOfRange, rows.out_of_range,
         fmt::format("sizes and times that no device has: {}; they count as 0 or unknown", rows.out_of_range)});
  return trace;
}

}  // namespace

extern const Importer kTorchSnapshot = {"memory-snapshot",
                                        "PyTorch memory snapshot",
                                        "PyTorch memory snapshots: pickles of torch.cuda.memory._dump_snapshot(), plain, gzip or zstd",
                                        "snapshot.pickle, snapshot.pickle.gz",
                                        may_be_pickle,
                                        read_snapshot};

}  // namespace profgpu
