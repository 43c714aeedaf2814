#include "view/document.h"

#include <vector>

#include "base/varint.h"
#include "view/json_text.h"

namespace profgpu {
namespace {

/// The columns so far, and where each stands.
class PackedColumns {
 public:
  template <class T>
  size_t plain(const std::vector<T>& values) {
    for (const T value : values) append_varint(bytes_, static_cast<uint64_t>(value));
    return end_column(values.size());
  }
  /// Ascending values.
  size_t delta(const std::vector<int64_t>& values) {
    int64_t last = 0;
    for (const int64_t value : values) {
      append_varint(bytes_, static_cast<uint64_t>(value - last));
      last = value;
    }
    return end_column(values.size());
  }
  size_t zigzagged(const std::vector<int64_t>& values) {
    for (const int64_t value : values) append_varint(bytes_, zigzag(static_cast<uint64_t>(value)));
    return end_column(values.size());
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  /// Where each begins, its bytes and how many values it has.
  [[nodiscard]] Value places() const { return places_; }

 private:
  size_t end_column(size_t count) {
    places_.emplace_back(List{begin_, bytes_.size() - begin_, count});
    begin_ = bytes_.size();
    return places_.size() - 1;
  }

  std::string bytes_;
  size_t begin_ = 0;
  List places_;
};

class PackWriter {
 public:
  std::string write(std::string_view report_json, const PageData& page);

 private:
  void number(std::string_view key, int64_t n) { json_.key(key), json_.integer(n); }
  void text(std::string_view key, std::string_view s) { json_.key(key), json_.text(s); }
  void column(std::string_view key, size_t place) { number(key, static_cast<int64_t>(place)); }
  template <class T>
  void column_if_any(std::string_view key, const std::vector<T>& values) {
    if (!values.empty()) column(key, columns_.plain(values));
  }
  void value(std::string_view key, const Value& v) { json_.key(key), json_.value(v, Layout::kInline); }
  template <class Items, class Write>
  void list(std::string_view key, const Items& items, Write&& write_item) {
    json_.key(key), json_.open('[', Layout::kInline);
    for (const auto& item : items) {
      json_.element(), json_.open('{', Layout::kInline);
      write_item(item);
      json_.close('}');
    }
    json_.close(']');
  }

  void head(const PageData& page);
  void names(const PageData& page);
  void track(const PageTrack& t);
  void counter(const PageTrack& t);
  void rank(const PageRank& r);
  void flame(const PageFlame& f);
  void histogram(const PageHistogram& k);
  void memory(const PageMemory& m);
  void holds(std::string_view key, const PageHolds& h, bool by_time);
  void history(const PageHistory& h);
  void snapshot(const PageSnapshot& s);
  void series(const PageSeries& s);

  JsonText json_;
  PackedColumns columns_;
};

void PackWriter::head(const PageData& page) {
  // Text: it does not fit a double.
  text("origin_ns", std::to_string(page.origin_ns));
  if (page.unix_origin_ns) text("unix_origin_ns", std::to_string(*page.unix_origin_ns));
  number("span_ns", page.span_ns);
  List kept;
  for (const auto& [start, end] : page.kept) kept.emplace_back(List{start, end});
  value("kept", std::move(kept));
  number("events", page.events);
  number("events_kept", page.events_kept);
  if (page.host_least_ns > 0) number("host_least_ns", page.host_least_ns);
  if (!page.without_events.empty()) value("without_events", value_of(page.without_events));
}

void PackWriter::names(const PageData& page) {
  json_.key("strings"), json_.open('[', Layout::kInline);
  for (size_t i = 0; i < page.strings.size(); ++i) json_.element(), json_.text(page.strings[i]);
  json_.close(']');
  value("categories", value_of(page.categories));
  list("args", page.args, [&](const PageArgs& args) {
    for (const auto& [key, value] : args) text(key, value);
  });
}

void PackWriter::counter(const PageTrack& t) {
  text("unit", t.unit);
  column("time", columns_.delta(t.start_ns));
  column("value", columns_.zigzagged(t.value));
  json_.key("scale"), json_.real(t.scale);
}

void PackWriter::track(const PageTrack& t) {
  number("rank", t.rank);
  text("group", t.group);
  text("title", t.title);
  text("kind", t.kind);
  if (t.kind == "counter") return counter(t);
  number("first", t.first);
  number("events", static_cast<int64_t>(t.start_ns.size()));
  column("start", columns_.delta(t.start_ns));
  column("duration", columns_.plain(t.duration_ns));
  column("name", columns_.plain(t.name));
  column("category", columns_.plain(t.category));
  column_if_any("depth", t.depth);
  column_if_any("args", t.args);
  column_if_any("link", t.link);
  column_if_any("slow", t.slow);
  json_.key("density"), json_.open('{', Layout::kInline);
  number("bin_ns", t.density.bin_ns);
  column("category", columns_.plain(t.density.category));
  column("busy", columns_.plain(t.density.busy));
  json_.close('}');
}

void PackWriter::flame(const PageFlame& f) {
  text("title", f.title);
  column("parent", columns_.plain(f.parent));
  column("name", columns_.plain(f.name));
  column("category", columns_.plain(f.category));
  column("total_ns", columns_.plain(f.total_ns));
  column("self_ns", columns_.plain(f.self_ns));
  column("device_ns", columns_.plain(f.device_ns));
  column("calls", columns_.plain(f.calls));
}

void PackWriter::histogram(const PageHistogram& k) {
  number("device", k.device);
  text("name", k.name);
  json_.key("histogram"), json_.open('{', Layout::kInline);
  number("from_ns", k.from_ns);
  number("to_ns", k.to_ns);
  value("counts", value_of(k.counts));
  json_.close('}');
}

void PackWriter::memory(const PageMemory& m) {
  json_.key("memory"), json_.open('{', Layout::kInline);
  number("device", m.device);
  column("time", columns_.delta(m.time_ns));
  column("allocated", columns_.plain(m.allocated));
  column("reserved", columns_.plain(m.reserved));
  number("peak_ns", m.peak_ns);
  Table held{{"op", "stack", "bytes", "blocks"}, {}};
  for (const PageHolder& h : m.held) held.rows.push_back({h.op, h.stack, h.bytes, h.blocks});
  value("held", std::move(held));
  json_.close('}');
}

void PackWriter::holds(std::string_view key, const PageHolds& h, bool by_time) {
  json_.key(key), json_.open('{', Layout::kInline);
  column("made", by_time ? columns_.delta(h.made) : columns_.plain(h.made));
  column("events", columns_.plain(h.events));
  column("bytes", columns_.plain(h.bytes));
  column("address", columns_.plain(h.address));
  json_.close('}');
}

void PackWriter::history(const PageHistory& h) {
  number("device", h.device);
  number("all_events", h.all_events);
  number("first", h.first);
  if (h.start_us) text("start_us", std::to_string(*h.start_us));
  column("time", columns_.delta(h.time_us));
  column("action", columns_.plain(h.action));
  column("addresses", columns_.delta(h.addresses));
  holds("allocations", h.allocations, true);
  column("stack", columns_.plain(h.stack));
  column("kind", columns_.plain(h.kind));
  holds("segments", h.segments, false);
  column("stream", columns_.plain(h.stream));
  value("streams", value_of(h.streams));
}

void PackWriter::snapshot(const PageSnapshot& s) {
  json_.key("snapshot"), json_.open('{', Layout::kInline);
  json_.key("stacks"), json_.open('{', Layout::kInline);
  column("parent", columns_.plain(s.stacks.parent));
  column("frame", columns_.plain(s.stacks.frame));
  column("name", columns_.plain(s.stacks.name));
  column("file", columns_.plain(s.stacks.file));
  column("line", columns_.plain(s.stacks.line));
  json_.close('}');
  list("histories", s.histories, [&](const PageHistory& h) { history(h); });
  json_.close('}');
}

void PackWriter::rank(const PageRank& r) {
  number("rank", r.rank);
  if (r.shift_ns) text("shift_ns", std::to_string(*r.shift_ns));
  list("flame", r.flame, [&](const PageFlame& f) { flame(f); });
  list("kernels", r.kernels, [&](const PageHistogram& k) { histogram(k); });
  if (r.memory) memory(*r.memory);
  Table gaps{{"device", "start", "duration", "cause", "after", "before", "host"}, {}};
  for (const PageGap& g : r.gaps)
    gaps.rows.push_back({g.device, g.start_ns, g.duration_ns, g.cause, g.after, g.before, g.host});
  value("gaps", std::move(gaps));
  if (r.snapshot) snapshot(*r.snapshot);
  if (r.utilization.empty()) return;
  Table use{{"step", "mfu_pct", "hfu_pct"}, {}};
  for (const PageUtilization& u : r.utilization) use.rows.push_back({u.step, u.mfu_pct, u.hfu_pct});
  value("utilization", std::move(use));
}

void PackWriter::series(const PageSeries& s) {
  text("device", s.device);
  if (s.rank) number("rank", *s.rank);
  text("metric", s.metric);
  text("title", s.title);
  text("unit", s.unit);
  column("time", columns_.delta(s.time_ns));
  column("value", columns_.zigzagged(s.value));
  json_.key("scale"), json_.real(s.scale);
}

std::string PackWriter::write(std::string_view report_json, const PageData& page) {
  json_.open('{');
  number("version", 1);
  json_.key("report"), json_.raw(report_json);
  head(page);
  names(page);
  list("tracks", page.tracks, [&](const PageTrack& t) { track(t); });
  list("ranks", page.ranks, [&](const PageRank& r) { rank(r); });
  list("samples", page.samples, [&](const PageSeries& s) { series(s); });
  list("reasons", page.reasons, [&](const PageReason& r) { number("bit", r.bit), text("words", r.words); });
  value("columns", columns_.places());
  json_.close('}');
  const std::string header = json_.take();
  std::string out = "PGP1";
  for (int byte = 0; byte < 4; ++byte) out += static_cast<char>(header.size() >> (8 * byte) & 0xFF);
  return out + header + columns_.bytes();
}

}  // namespace

std::string packed(std::string_view report_json, const PageData& page) { return PackWriter().write(report_json, page); }

}  // namespace profgpu
