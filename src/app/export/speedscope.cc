// speedscope's JSON: every thread as it went, or every device with the stacks that launched its work.
#include <algorithm>
#include <utility>

#include "app/export/run.h"
#include "base/json_quoted.h"

namespace profgpu {
namespace {

class SpeedscopeText {
 public:
  SpeedscopeText(const RunRows& run, ByteWriter& out) : run_(run), out_(out) {
    for (const RankRows& rank : run.ranks)
      if (const auto& extent = rank.outline().extent) origin_ns_ = std::min(origin_ns_, run.clock(rank)(extent->start));
    out_.put(
        "{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\", \"exporter\": "
        "\"profgpu\",\n\"profiles\": [");
  }

  void threads(const RankRows& rank) {
    const Trace& t = rank.trace();
    for (const Thread& thread : t.threads) {
      if (thread.begin == thread.end) continue;
      const std::string name = thread.name.empty() ? "thread " + thread.id : thread.name;
      int64_t end = INT64_MIN;
      for (uint32_t h = thread.begin.value; h < thread.end.value; ++h) end = std::max(end, t.host.end_ns(HostId(h)));
      // Within a float's 53 bits: times begin with the run.
      const RunClock clock = run_.clock(rank);
      const auto at = [&](int64_t time_ns) { return saturated_sub(clock(time_ns), origin_ns_); };
      head("evented", prefix(rank) + "pid " + thread.process + ", " + name, at(t.host.start_ns[thread.begin.value]),
           at(end));
      out_.put(", \"events\": [");
      events(t, thread, at);
      out_.put("\n]}");
    }
  }

  void devices(const RankRows& rank) {
    const Trace& t = rank.trace();
    for (const Trace::DeviceRows& d : t.device_rows) {
      int64_t sum = 0;
      for (uint32_t a = d.begin.value; a < d.end.value; ++a) sum += t.activity.duration_ns[a];
      head("sampled", prefix(rank) + "GPU " + std::to_string(d.device), 0, sum);
      out_.put(", \"samples\": [");
      for (uint32_t a = d.begin.value; a < d.end.value && out_.error() == 0; ++a) {
        if (a != d.begin.value) out_.put(',');
        out_.put("\n[");
        for (const size_t f : stack(t, ActivityId(a))) out_.put_number(static_cast<int64_t>(f)).put(", ");
        out_.put_number(static_cast<int64_t>(frame(t.name(ActivityId(a))))).put(']');
      }
      out_.put("],\n\"weights\": [");
      for (uint32_t a = d.begin.value; a < d.end.value && out_.error() == 0; ++a) {
        if (a != d.begin.value) out_.put(a % 16 == 0 ? ",\n" : ", ");
        out_.put_number(t.activity.duration_ns[a]);
      }
      out_.put("]}");
    }
  }

  void finish() {
    out_.put("],\n\"shared\": {\"frames\": [");
    for (uint32_t f = 0; f < frames_.size(); ++f)
      out_.put(f > 0 ? "," : "").put("\n {\"name\": ").put(json_quoted(frames_[StringId(f)])).put('}');
    out_.put("]}}\n");
  }

 private:
  [[nodiscard]] std::string prefix(const RankRows& rank) const {
    return run_.ranks.size() > 1 ? "rank " + std::to_string(rank.rank()) + ", " : "";
  }
  void head(std::string_view type, const std::string& name, int64_t start, int64_t end) {
    out_.put(profiles_++ > 0 ? ",\n" : "\n")
        .put("{\"type\": \"")
        .put(type)
        .put("\", \"name\": ")
        .put(json_quoted(name));
    out_.put(", \"unit\": \"nanoseconds\", \"startValue\": ").put_number(start).put(", \"endValue\": ").put_number(end);
  }
  size_t frame(std::string_view name) { return frames_.intern(name).value; }

  struct Open {
    size_t frame;
    int64_t end;
  };
  void event(char type, size_t frame, int64_t at) {
    out_.put(std::exchange(first_, false) ? "\n{\"type\": \"" : ",\n{\"type\": \"").put(type).put("\", \"frame\": ");
    out_.put_number(static_cast<int64_t>(frame)).put(", \"at\": ").put_number(at).put('}');
  }
  // Frames must hold each other: one that ends within what began later is cut there.
  template <class At>
  void events(const Trace& t, const Thread& thread, const At& at) {
    std::vector<Open> open;
    first_ = true;
    for (uint32_t h = thread.begin.value; h < thread.end.value && out_.error() == 0; ++h) {
      const int64_t start = at(t.host.start_ns[h]), end = at(t.host.end_ns(HostId(h)));
      while (!open.empty() && (open.back().end <= start || open.back().end < end)) {
        event('C', open.back().frame, std::min(open.back().end, start));
        open.pop_back();
      }
      event('O', frame(t.name(HostId(h))), start);
      open.push_back({frame(t.name(HostId(h))), end});
    }
    for (; !open.empty(); open.pop_back()) event('C', open.back().frame, open.back().end);
  }

  // From the outside in.
  std::vector<size_t> stack(const Trace& t, ActivityId a) {
    std::vector<size_t> frames;
    for (HostId h = t.activity.launch[a.value]; h.valid(); h = t.host.parent[h.value])
      frames.push_back(frame(t.name(h)));
    std::reverse(frames.begin(), frames.end());
    return frames;
  }

  const RunRows& run_;
  ByteWriter& out_;
  int64_t origin_ns_ = INT64_MAX;
  int profiles_ = 0;
  bool first_ = true;
  StringPool frames_;
};

Status write_speedscope(const RunRows& run, const ExportOptions& options, ByteWriter& out) {
  if (run.ranks.empty()) return only_samples("speedscope");
  SpeedscopeText text(run, out);
  Status status = run.each_rank([&](const RankRows& rank) {
    if (options.weight == Weight::kHost) text.threads(rank);
    else text.devices(rank);
  });
  if (!status) return status;
  text.finish();
  return ok();
}

}  // namespace

extern const Exporter kSpeedscopeExport{
    .name = "speedscope",
    .summary = "flame graphs of every thread, or of every device by what launched its work",
    .reader = "speedscope (speedscope.app)",
    .extension = ".speedscope.json",
    .write = write_speedscope,
};

}  // namespace profgpu
