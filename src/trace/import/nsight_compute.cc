// Nsight Compute's CSV: `ncu --csv`, with `--page raw` (a row for each launch, a column for each metric, units in the
// second row) or without (a row for each metric of a launch). The program's own output may come before it.
//
// Times at which kernels ran are not in it: alone, its launches stand one after the other.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/csv.h"
#include "base/decimal.h"
#include "base/text.h"
#include "trace/import/importer.h"
#include "trace/import/said_issues.h"
#include "trace/import/whole_text.h"
#include "trace/kernel_profile.h"
#include "trace/no_timeline.h"
#include "trace/trace_builder.h"

namespace profgpu {
namespace {

using std::string_view;

constexpr string_view kNcuHeader = "\"ID\",\"Process ID\"";
constexpr size_t kMaxLaunches = 1 << 20;
constexpr double kLongestLaunch_ns = 1e15;
constexpr double kLargestNcuNumber = 1e18;   // larger numbers are damage

/// Where a metric goes. Of several names of one quantity the first one in the table that a file has counts.
struct NcuMetric {
  string_view name;
  std::optional<double> ProfiledLaunch::* to;
  enum class Unit : uint8_t { kPercent, kTime, kBytes, kPlain } unit;
};

// Names as in --page raw, then those of the details page in versions from 2019 to 2026.
constexpr NcuMetric kNcuMetrics[] = {
    {"gpu__time_duration.sum", &ProfiledLaunch::duration_ns, NcuMetric::Unit::kTime},
    {"gpu__time_duration.avg", &ProfiledLaunch::duration_ns, NcuMetric::Unit::kTime},
    {"gpu__time_duration.max", &ProfiledLaunch::duration_ns, NcuMetric::Unit::kTime},
    {"Duration", &ProfiledLaunch::duration_ns, NcuMetric::Unit::kTime},
    {"sm__throughput.avg.pct_of_peak_sustained_elapsed", &ProfiledLaunch::sm_pct, NcuMetric::Unit::kPercent},
    {"Compute (SM) Throughput", &ProfiledLaunch::sm_pct, NcuMetric::Unit::kPercent},
    {"Compute (SM) [%]", &ProfiledLaunch::sm_pct, NcuMetric::Unit::kPercent},
    {"SM [%]", &ProfiledLaunch::sm_pct, NcuMetric::Unit::kPercent},
    {"SOL SM", &ProfiledLaunch::sm_pct, NcuMetric::Unit::kPercent},
    {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", &ProfiledLaunch::memory_pct,
     NcuMetric::Unit::kPercent},
    {"Memory Throughput", &ProfiledLaunch::memory_pct, NcuMetric::Unit::kPercent},
    {"Memory [%]", &ProfiledLaunch::memory_pct, NcuMetric::Unit::kPercent},
    {"SOL Memory", &ProfiledLaunch::memory_pct, NcuMetric::Unit::kPercent},
    {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", &ProfiledLaunch::dram_pct, NcuMetric::Unit::kPercent},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", &ProfiledLaunch::dram_pct, NcuMetric::Unit::kPercent},
    {"DRAM Throughput", &ProfiledLaunch::dram_pct, NcuMetric::Unit::kPercent},
    {"SOL DRAM", &ProfiledLaunch::dram_pct, NcuMetric::Unit::kPercent},
    {"dram__bytes.sum", &ProfiledLaunch::dram_bytes, NcuMetric::Unit::kBytes},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", &ProfiledLaunch::occupancy_pct, NcuMetric::Unit::kPercent},
    {"Achieved Occupancy", &ProfiledLaunch::occupancy_pct, NcuMetric::Unit::kPercent},
    {"sm__maximum_warps_per_active_cycle_pct", &ProfiledLaunch::theoretical_occupancy_pct, NcuMetric::Unit::kPercent},
    {"Theoretical Occupancy", &ProfiledLaunch::theoretical_occupancy_pct, NcuMetric::Unit::kPercent},
    {"launch__registers_per_thread", &ProfiledLaunch::registers, NcuMetric::Unit::kPlain},
    {"Registers Per Thread", &ProfiledLaunch::registers, NcuMetric::Unit::kPlain}};
// Read and written bytes, where their sum is not there; of two names of the same bytes the first pair counts.
constexpr string_view kNcuDramParts[][2] = {{"dram__bytes_read.sum", "dram__bytes_write.sum"},
                                            {"dram__bytes_op_read.sum", "dram__bytes_op_write.sum"}};
bool is_dram_part(string_view metric) {
  return std::ranges::any_of(kNcuDramParts, [&](const auto& pair) { return std::ranges::count(pair, metric) > 0; });
}

/// "long_scoreboard"; empty: not the name of a reason to stall. Several families of metrics have them.
string_view ncu_stall(string_view metric) {
  constexpr std::pair<string_view, string_view> kForms[] = {
      {"smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"},
      {"smsp__average_warp_latency_issue_stalled_", ".ratio"},
      {"smsp__pcsamp_warps_issue_stalled_", ""}};
  for (const auto& [prefix, suffix] : kForms) {
    if (!metric.starts_with(prefix) || !metric.ends_with(suffix) || metric.size() <= prefix.size() + suffix.size())
      continue;
    const string_view reason = metric.substr(prefix.size(), metric.size() - prefix.size() - suffix.size());
    // Those that issue are not stalled.
    return reason.ends_with("_not_issued") || contains(reason, ".") || reason == "selected" ? string_view() : reason;
  }
  return {};
}

/// Numbers of one file: with points or commas at the decimals, as the machine's language has it.
class NcuNumbers {
 public:
  /// One of the file's texts: some tell the language.
  void look_at(string_view text) {
    const size_t comma = text.rfind(','), point = text.rfind('.');
    const auto count = [&](char c) { return std::ranges::count(text, c); };
    if (comma == text.npos) comma_ |= count('.') > 1;
    else if (point != text.npos) (comma > point ? comma_ : point_) = true;
    else if (count(',') > 1) point_ = true;
    else if (text.size() - comma - 1 != 3) comma_ = true;
  }
  [[nodiscard]] std::optional<double> value(string_view text) const {
    const char decimal = comma_ && !point_ ? ',' : '.';
    std::string plain;
    for (const char c : text)
      if (c == decimal) plain += '.';
      else if (c != ',' && c != '.' && c != ' ') plain += c;
    return real_number(plain);
  }

 private:
  bool comma_ = false, point_ = false;
};

/// What a unit is in nanoseconds, bytes or percent; none: another quantity's, as "Memory Throughput" in Gbyte/second.
std::optional<double> ncu_scale(NcuMetric::Unit unit, string_view text) {
  using Unit = NcuMetric::Unit;
  constexpr std::pair<string_view, double> kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}},
                                           kLongTimes[] = {{"nsecond", 1}, {"usecond", 1e3}, {"msecond", 1e6},
                                                           {"second", 1e9}},
                                           kBytes[] = {{"byte", 1}, {"Kbyte", 1e3}, {"Mbyte", 1e6}, {"Gbyte", 1e9},
                                                       {"Tbyte", 1e12}, {"", 1}};
  const auto in = [&](const auto& table) -> std::optional<double> {
    for (const auto& [name, scale] : table)
      if (name == text) return scale;
    return std::nullopt;
  };
  switch (unit) {
    case Unit::kPercent: return text == "%" || text.empty() ? std::optional(1.0) : std::nullopt;
    case Unit::kTime: return in(kTimes) ? in(kTimes) : in(kLongTimes);
    case Unit::kBytes: return in(kBytes);
    case Unit::kPlain: return 1;
  }
  return std::nullopt;
}

/// "(128, 1, 1)" or "128".
std::array<int32_t, 3> ncu_triple(string_view text) {
  std::array<int32_t, 3> all{};
  size_t i = 0;
  for (size_t place = 0; place < text.size() && i < 3;) {
    int32_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + place, text.data() + text.size(), value);
    if (error == std::errc()) all[i++] = std::max(value, 0), place = static_cast<size_t>(end - text.data());
    else ++place;
  }
  for (; i > 0 && i < 3; ++i) all[i] = 1;
  return all;
}

/// Reads rows in order and keeps the wanted texts until all of them have told how numbers are written.
class NcuReader {
 public:
  void line(string_view text) {
    if (!fields_.split(text)) return void(++damaged);
    const std::vector<string_view>& f = fields_.fields();
    if (f.size() > 4 && f[0] == "ID" && f[1] == "Process ID") return header(f);
    if (columns_ == 0) return;
    if (f.size() < columns_) return void(++damaged);   // the cut end, or the program's own output
    if (kernel_ >= f.size() || id_ >= f.size()) return;
    if (metric_ == kNone && f[id_].empty()) {
      units_.assign(f.begin(), f.end());
      return;
    }
    if (!all_digits(f[id_])) return void(++damaged);
    Texts* launch = launch_of(f);
    if (launch == nullptr) return;
    ++rows;
    if (metric_ != kNone) return add(*launch, f[metric_], unit_ < f.size() ? f[unit_] : "", f[value_]);
    for (size_t c = 0; c < columns_; ++c)
      if (wanted_[c]) add(*launch, names_[c], c < units_.size() ? string_view(units_[c]) : "", f[c]);
  }

  KernelProfile profile() {
    KernelProfile all;
    for (Texts& t : launches_) all.launches.push_back(launch(std::move(t)));
    return all;
  }

  int64_t rows = 0, damaged = 0, beyond = 0;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Text {
    const std::string* name = nullptr;   // of the reader's
    std::string unit, value;
  };
  struct Texts {
    ProfiledLaunch launch;
    std::vector<Text> metrics;
  };

  static bool is_wanted(string_view name) {
    return std::ranges::any_of(kNcuMetrics, [&](const NcuMetric& m) { return m.name == name; }) ||
           is_dram_part(name) || !ncu_stall(name).empty();
  }

  void header(const std::vector<string_view>& f) {
    columns_ = f.size();
    id_ = process_ = kernel_ = grid_ = block_ = device_ = stream_ = metric_ = unit_ = value_ = kNone;
    units_.clear();
    names_.assign(f.begin(), f.end());
    wanted_.clear();
    const std::pair<string_view, size_t*> places[] = {
        {"ID", &id_}, {"Process ID", &process_}, {"Kernel Name", &kernel_}, {"Grid Size", &grid_},
        {"Block Size", &block_}, {"Device", &device_}, {"Stream", &stream_}, {"Metric Name", &metric_},
        {"Metric Unit", &unit_}, {"Metric Value", &value_}};
    for (size_t c = 0; c < f.size(); ++c) {
      bool known = false;
      for (const auto& [name, place] : places)
        if (name == f[c] && *place == kNone) *place = c, known = true;
      wanted_.push_back(!known && is_wanted(f[c]));
    }
    if (kernel_ == kNone || (metric_ != kNone && value_ == kNone)) columns_ = 0;
  }

  [[nodiscard]] static int64_t number(const std::vector<string_view>& f, size_t place) {
    return place < f.size() ? whole_number(f[place]).value_or(0) : 0;
  }

  Texts* launch_of(const std::vector<string_view>& f) {
    const std::pair<int64_t, int64_t> key{number(f, process_), number(f, id_)};
    const auto at = places_.find(key);
    if (at != places_.end()) return &launches_[at->second];
    if (launches_.size() >= kMaxLaunches) return ++beyond, nullptr;
    places_.emplace(key, launches_.size());
    ProfiledLaunch& launch = launches_.emplace_back().launch;
    launch.kernel = f[kernel_].empty() ? "(no name)" : f[kernel_];
    replace_invalid_utf8(launch.kernel);
    if (grid_ < f.size()) launch.grid = ncu_triple(f[grid_]);
    if (block_ < f.size()) launch.block = ncu_triple(f[block_]);
    launch.device = static_cast<int32_t>(std::clamp<int64_t>(number(f, device_), 0, 1023));
    launch.stream = number(f, stream_);
    return &launches_.back();
  }

  void add(Texts& texts, string_view name, string_view unit, string_view value) {
    if (metric_ != kNone && !is_wanted(name)) return;
    constexpr size_t kMaxMetrics = 256, kMaxNumber = 64;
    if (value.empty() || value.size() > kMaxNumber || texts.metrics.size() >= kMaxMetrics) return;
    numbers_.look_at(value);
    texts.metrics.push_back({&*metric_names_.emplace(name).first, std::string(unit), std::string(value)});
  }

  ProfiledLaunch launch(Texts texts) const {
    ProfiledLaunch launch = std::move(texts.launch);
    for (const NcuMetric& m : kNcuMetrics) {
      std::optional<double>& to = launch.*m.to;
      for (size_t i = 0; i < texts.metrics.size() && !to; ++i)
        if (*texts.metrics[i].name == m.name) to = read(texts.metrics[i], m.unit);
    }
    if (launch.duration_ns && *launch.duration_ns >= kLongestLaunch_ns) launch.duration_ns.reset();
    for (const auto& pair : kNcuDramParts) {
      std::optional<double> sum;
      for (const Text& t : texts.metrics)
        if (std::ranges::count(pair, *t.name) > 0)
          if (const auto bytes = read(t, NcuMetric::Unit::kBytes)) sum = sum.value_or(0) + *bytes;
      if (!launch.dram_bytes) launch.dram_bytes = sum;
    }
    for (const Text& t : texts.metrics)
      if (const string_view reason = ncu_stall(*t.name); !reason.empty())
        if (const auto value = read(t, NcuMetric::Unit::kPlain); value && *value > 0)
          launch.stalls.emplace_back(reason, *value);
    return launch;
  }

  [[nodiscard]] std::optional<double> read(const Text& text, NcuMetric::Unit unit) const {
    const auto scale = ncu_scale(unit, text.unit);
    const auto value = scale ? numbers_.value(text.value) : std::nullopt;
    const double product = value ? *value * *scale : -1;
    return product >= 0 && product < kLargestNcuNumber ? std::optional(product) : std::nullopt;
  }

  CsvFields fields_;
  size_t columns_ = 0;   // 0: no header yet
  size_t id_ = 0, process_ = 0, kernel_ = 0, grid_ = 0, block_ = 0, device_ = 0, stream_ = 0, metric_ = 0, unit_ = 0,
         value_ = 0;
  std::vector<std::string> names_, units_;
  std::vector<bool> wanted_;
  NcuNumbers numbers_;
  std::vector<Texts> launches_;
  std::map<std::pair<int64_t, int64_t>, size_t> places_;   // by process and id
  std::unordered_set<std::string> metric_names_;
};

// Descriptions of rules have line breaks within quotes: such lines belong together.
template <class Each>
void each_csv_line(string_view text, Each&& each) {
  constexpr size_t kLongestRow = 1 << 20;
  while (!text.empty()) {
    const bool row = text.starts_with('"');   // else what the program printed
    size_t end = 0;
    for (bool open = false; end < text.size(); ++end) {
      if (text[end] == '"') open = !open;
      if (text[end] == '\n' && (!open || !row || end > kLongestRow)) break;
    }
    string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    each(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool sniff_ncu(string_view head) {
  const size_t at = head.find(kNcuHeader);
  if (at == head.npos || (at > 0 && head[at - 1] != '\n')) return false;
  const string_view line = head.substr(at, head.find('\n', at) - at);
  return contains(line, "\"Kernel Name\"");
}

// Launches one after the other, in the order of the file.
void add_profiled_launches(const KernelProfile& profile, Shard& shard) {
  std::map<int32_t, int64_t> now_ns;   // by device
  for (const ProfiledLaunch& launch : profile.launches) {
    ActivityArgs args;
    std::ranges::copy(launch.grid, args.grid);
    std::ranges::copy(launch.block, args.block);
    if (launch.registers) args.registers = static_cast<int32_t>(std::min(*launch.registers, 65536.0));
    int64_t& now = now_ns[launch.device];
    ActivityRow row;
    row.start_ns = now;
    constexpr int64_t kLatest_ns = INT64_MAX / 4;   // as for other formats: sums cannot overflow
    row.duration_ns = std::min(static_cast<int64_t>(launch.duration_ns.value_or(0) + 0.5), kLatest_ns - now);
    row.name = shard.strings.intern(launch.kernel);
    row.queue = shard.queue({launch.device, launch.stream, 0});
    row.args = shard.activity_args(args);
    shard.activity.push_back(row);
    now += row.duration_ns;
  }
}

Result<Trace> read_ncu(const std::string& path, const ImportOptions&) {
  bool broken = false;
  auto text = whole_text(path, broken);
  if (!text) return text.error();
  NcuReader reader;
  each_csv_line(*text, [&](string_view line) { reader.line(line); });
  const auto profile = std::make_shared<const KernelProfile>(reader.profile());
  if (profile->launches.empty())
    return Error{path + ": Nsight Compute's CSV, but without any launch of a kernel",
                 "did --kernel-name, --launch-skip and --launch-count select any?"};
  TraceBuilder builder;
  builder.header().recorder = Recorder::kOther;
  add_profiled_launches(*profile, builder.shard());
  Trace trace = builder.finish(1);
  trace.events = reader.rows;
  trace.kernel_profile = profile;
  trace.metadata.emplace_back(kNoTimelineField, "output of Nsight Compute");
  trace.issues.push_back({TraceIssueKind::kNote, 1,
                          "Nsight Compute's output has no times at which kernels ran: its launches stand one after the "
                          "other, and time between them is unknown"});
  const auto without = std::ranges::count_if(profile->launches, [](const auto& l) { return !l.duration_ns; });
  add_count(trace, TraceIssueKind::kOther, without,
            "launches without a duration: {}; record gpu__time_duration.sum or --section SpeedOfLight");
  add_count(trace, TraceIssueKind::kDamaged, reader.damaged, "lines that are no rows of the table: {}");
  add_count(trace, TraceIssueKind::kOutOfRange, reader.beyond,
            fmt::format("rows left out, of more than {} launches: {{}}", kMaxLaunches));
  if (broken) add_cut(trace);
  return trace;
}

TraceIssue join_ncu(const Trace& own, const std::string&, Trace& other) {
  int64_t by_name = 0, by_function = 0, ambiguous = 0;
  for (const ProfiledKernel& k : match_profile(*own.kernel_profile, other)) {
    const auto count = static_cast<int64_t>(k.profiled.size());
    by_name += k.by == ProfiledKernel::By::kName ? count : 0;
    by_function += k.by == ProfiledKernel::By::kFunction ? count : 0;
    ambiguous += k.ambiguous ? count : 0;
  }
  const std::vector<ProfiledLaunch>& launches = own.kernel_profile->launches;
  const auto all = static_cast<int64_t>(launches.size());
  auto joined = std::make_shared<KernelProfile>(other.kernel_profile ? *other.kernel_profile : KernelProfile{});
  joined->joined = true;
  joined->launches.insert(joined->launches.end(), launches.begin(), launches.end());
  other.kernel_profile = std::move(joined);
  if (by_name + by_function == 0)
    return {TraceIssueKind::kOther, 0,
            "none of its kernels is in the trace beside it, by name, grid and block: is it of the same program?"};
  std::string text = fmt::format("{} of its {} launches are of kernels in the trace beside it, by grid, block and {}",
                                 by_name + by_function, all,
                                 by_function == 0 ? "name" : by_name == 0 ? "function" : "name or function");
  if (ambiguous > 0) text += fmt::format("; {} could be several of them", ambiguous);
  return {TraceIssueKind::kNote, by_name + by_function, std::move(text)};
}

}  // namespace

extern const Importer kNsightCompute = {.name = "ncu",
                                        .noun = "Nsight Compute output",
                                        .summary = "Nsight Compute's CSV (ncu --csv, ncu --import FILE --csv, with or without "
                                                   "--page raw), alone or beside a trace",
                                        .examples = "ncu.csv, ncu-rank0.csv",
                                        .sniff = sniff_ncu,
                                        .read = read_ncu,
                                        .join = join_ncu};

}  // namespace profgpu
