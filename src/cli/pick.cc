// profgpu pick: free GPUs, for CUDA_VISIBLE_DEVICES.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "analyse/report/quantity.h"
#include "app/words.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "base/text.h"
#include "cli/device_options.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "devices/selection.h"
#include "view/json_text.h"
#include "view/layout.h"
#include "watch/live/snapshot.h"

namespace profgpu {
namespace {

constexpr int64_t kPoll_ns = 1'000'000'000;

struct PickOptions {
  size_t count = 1;
  std::optional<double> free_bytes, max_utilization_pct, max_memory_pct;
  std::string order, format;
  std::vector<uint32_t> excluded;
  int64_t wait_ns = 0;
  bool json = false;
};

/// A device as far as picking goes; absent: the driver does not report it.
struct Candidate {
  const DeviceInfo* info = nullptr;
  uint32_t position = 0;
  std::optional<double> free_bytes, memory_pct, utilization_pct, power_w;
  std::string refused;   ///< empty: it qualifies
};

Status read_percent(const Arguments& arguments, std::string_view flag, std::optional<double>& value) {
  if (!arguments.has(flag)) return ok();
  std::string text = arguments.value(flag);
  if (text.ends_with("%")) text.pop_back();
  value = real_number(text);
  if (value && *value >= 0 && *value <= 100) return ok();
  return Error{fmt::format("{} takes a number from 0 to 100, not \"{}\"", flag, arguments.value(flag))};
}

Status read_size(const Arguments& arguments, std::optional<double>& bytes) {
  if (!arguments.has("--free")) return ok();
  bytes = size_bytes(arguments.value("--free"));
  if (bytes) return ok();
  return Error{"--free takes a size, not \"" + arguments.value("--free") + "\"", "for example 20GiB, 20G, 20000MiB"};
}

Result<PickOptions> pick_options(const Arguments& arguments) {
  PickOptions options;
  options.order = arguments.value("--order", "memory");
  options.format = arguments.value("--format", "index");
  options.json = arguments.has("--json");
  OptionReader read(arguments);
  read.whole("--count", 1, 1024, options.count).time("--wait", 0, INT64_MAX, options.wait_ns);
  for (const Status& status : {read.status(), read_size(arguments, options.free_bytes),
                               read_percent(arguments, "--max-util", options.max_utilization_pct),
                               read_percent(arguments, "--max-memory", options.max_memory_pct)})
    if (!status) return status.error();
  return options;
}

std::string why_refused(const Candidate& c, const DeviceLook& look, const PickOptions& options) {
  if (look.state != DeviceState::kOk) return look.message;
  if (std::find(options.excluded.begin(), options.excluded.end(), c.position) != options.excluded.end())
    return "excluded";
  const auto over = [](const std::optional<double>& value, const std::optional<double>& max, std::string_view what) {
    if (!max) return std::string();
    if (!value) return fmt::format("{} not reported by the driver", what);
    return *value > *max ? fmt::format("{} {:.0f} % over {:.0f} %", what, *value, *max) : std::string();
  };
  if (options.free_bytes && !c.free_bytes) return "free memory not reported by the driver";
  if (options.free_bytes && *c.free_bytes < *options.free_bytes)
    return fmt::format("{} free, under {}", format_bytes(*c.free_bytes), format_bytes(*options.free_bytes));
  const std::string why = over(c.memory_pct, options.max_memory_pct, "memory");
  return why.empty() ? over(c.utilization_pct, options.max_utilization_pct, "utilization") : why;
}

Candidate candidate_of(const DeviceInfo& info, const DeviceLook& look) {
  Candidate c;
  c.info = &info;
  c.position = look.device;
  const auto sampled_total = look.value(Metric::kMemoryTotal);
  const auto total = sampled_total ? sampled_total : info.constant(Metric::kMemoryTotal);
  const auto used = look.value(Metric::kMemoryUsed);
  c.free_bytes = look.value(Metric::kMemoryFree);
  if (!c.free_bytes && total && used) c.free_bytes = *total - *used;
  if (total && *total > 0 && used) c.memory_pct = 100 * *used / *total;
  c.utilization_pct = look.mean(Metric::kUtilization);  // a moment between two kernels means little
  c.power_w = look.value(Metric::kPower);
  return c;
}

// A GPU that is split into MIG instances cannot be used as a whole.
bool is_split(const std::vector<DeviceInfo>& devices, uint32_t position) {
  return std::any_of(devices.begin(), devices.end(), [&](const DeviceInfo& d) { return d.parent == position; });
}

std::vector<Candidate> candidates_of(const OpenDevices& open, const std::vector<DeviceLook>& looks,
                                     const PickOptions& options) {
  std::vector<Candidate> out;
  const auto& devices = open.backend->devices();
  for (const DeviceLook& look : looks) {
    out.push_back(candidate_of(devices[look.device], look));
    const bool one_of_several = options.count > 1 && devices[look.device].parent;
    out.back().refused = is_split(devices, look.device) ? "split into MIG instances"
                         : one_of_several               ? "a program can use only one MIG instance"
                                                        : why_refused(out.back(), look, options);
  }
  return out;
}

// Smallest first; unknown values come last. Among devices with the same whole GiB free the least busy comes first: some
// MiB more mean nothing.
std::pair<double, double> rank_of(const Candidate& c, std::string_view order) {
  constexpr double kLast = 1e300;
  const double utilization = c.utilization_pct.value_or(kLast);
  if (order == "memory") return {c.free_bytes ? -std::floor(*c.free_bytes / (1 << 30)) : kLast, utilization};
  if (order == "utilization") return {utilization, c.free_bytes ? -*c.free_bytes : kLast};
  if (order == "power") return {c.power_w.value_or(kLast), utilization};
  return {c.position, 0};
}

std::vector<const Candidate*> picked_of(const std::vector<Candidate>& candidates, const PickOptions& options) {
  std::vector<const Candidate*> picked;
  for (const Candidate& c : candidates)
    if (c.refused.empty()) picked.push_back(&c);
  std::stable_sort(picked.begin(), picked.end(), [&](const Candidate* a, const Candidate* b) {
    return rank_of(*a, options.order) < rank_of(*b, options.order);
  });
  // A program can use only one vendor's: of those that have enough, that of the best.
  const auto enough_like = [&](const Candidate* c) {
    return std::ranges::count(picked, c->info->vendor, [](const Candidate* p) { return p->info->vendor; }) >=
           static_cast<std::ptrdiff_t>(options.count);
  };
  const auto best = std::ranges::find_if(picked, enough_like);
  if (best == picked.end()) return {};
  std::erase_if(picked, [vendor = (*best)->info->vendor](const Candidate* c) { return c->info->vendor != vendor; });
  picked.resize(options.count);
  return picked;
}

// CUDA accepts a MIG instance only by its UUID.
std::string name_for(const Candidate& c, bool uuid) {
  return (uuid || c.info->parent) && !c.info->uuid.empty() ? c.info->uuid : c.info->label();
}

std::string list_of(const std::vector<const Candidate*>& picked, bool uuid) {
  return joined(picked, ",", [&](const Candidate* c) { return name_for(*c, uuid); });
}

std::string environment_of(const std::vector<const Candidate*>& picked) {
  const std::string& vendor = picked.front()->info->vendor;
  // HIP counts what ROCR_VISIBLE_DEVICES leaves.
  if (vendor == "AMD" && std::getenv("ROCR_VISIBLE_DEVICES") != nullptr) {
    std::string counted;
    for (size_t i = 0; i < picked.size(); ++i) append_listed(counted, std::to_string(i), ",");
    return "ROCR_VISIBLE_DEVICES=" + list_of(picked, false) + " HIP_VISIBLE_DEVICES=" + counted;
  }
  if (vendor == "AMD") return "HIP_VISIBLE_DEVICES=" + list_of(picked, false);
  if (vendor == "Intel") return "ZE_AFFINITY_MASK=" + list_of(picked, false);
  // Without the order, CUDA numbers the fastest device 0.
  return "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=" + list_of(picked, false);
}

std::string json_of(const std::vector<Candidate>& candidates, const std::vector<const Candidate*>& picked) {
  List indices, uuids;
  for (const Candidate* c : picked) indices.emplace_back(c->info->index), uuids.emplace_back(c->info->uuid);
  Table table{{"index", "label", "uuid", "name", "memory_free_bytes", "memory_pct", "utilization_pct", "power_w",
               "refused"}, {}};
  for (const Candidate& c : candidates)
    table.rows.push_back({c.info->index, c.info->label(), unless_empty(c.info->uuid), c.info->name, c.free_bytes,
                          c.memory_pct, c.utilization_pct, c.power_w, unless_empty(c.refused)});
  return json_document(Record()
                           .add("schema", "profgpu.pick.v1")
                           .add("enough", !picked.empty())
                           .add("picked", std::move(indices))
                           .add("picked_uuids", std::move(uuids))
                           .add("candidates", std::move(table)));
}

std::string refusal_table(const std::vector<Candidate>& candidates) {
  Grid grid({{"GPU"}, {"name"}, {"free", true}, {"utilization", true}, {"why not"}});
  for (const Candidate& c : candidates)
    grid.add_row({{c.info->label()}, {c.info->name},
                  {c.free_bytes ? format_bytes(*c.free_bytes) : std::string(kUnknownText)},
                  {c.utilization_pct ? fmt::format("{:.0f} %", *c.utilization_pct) : std::string(kUnknownText)},
                  {c.refused.empty() ? "free, but too few GPUs are free" : c.refused}});
  std::string text = rendered(grid.lines(stderr_is_terminal() ? message_width() : 0), 0, false);
  if (!text.empty()) text.pop_back();
  return text;
}

Outcome print_picked(const std::vector<Candidate>& candidates, const std::vector<const Candidate*>& picked,
                     const PickOptions& options) {
  std::string text;
  if (options.json) text = json_of(candidates, picked);
  else if (!picked.empty() && options.format == "env") text = environment_of(picked) + "\n";
  else if (!picked.empty()) text = list_of(picked, options.format == "uuid") + "\n";
  const Status written = write_stdout(text);
  if (!written || !picked.empty()) return written;
  const auto free =
      std::count_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.refused.empty(); });
  print_message(refusal_table(candidates));
  return Error{fmt::format("{} of {} GPUs are free, {} requested", free, candidates.size(), options.count),
               "wait for them with --wait TIME; `profgpu stat` shows who uses them"};
}

Outcome pick_from(Snapshots& snapshots, const OpenDevices& open, const PickOptions& options) {
  const int64_t begin_ns = monotonic_ns();
  for (;;) {
    const std::vector<Candidate> candidates = candidates_of(open, snapshots.take(), options);
    const auto picked = picked_of(candidates, options);
    const int64_t left_ns = options.wait_ns - (monotonic_ns() - begin_ns);
    if (!picked.empty() || open.backend->ended() || left_ns <= 0) return print_picked(candidates, picked, options);
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kPoll_ns, left_ns)));
  }
}

Outcome pick(const Arguments& arguments) {
  auto options = pick_options(arguments);
  if (!options) return Outcome::usage(options.error());
  auto devices = device_options(arguments);
  if (!devices) return Outcome::usage(devices.error());
  auto open = open_shown("pick", *devices);
  if (!open) return open.error();
  if (arguments.has("--exclude")) {
    auto excluded = select_devices(open->backend->devices(), arguments.values("--exclude"));
    if (!excluded) return Outcome::usage(excluded.error().within("--exclude"));
    options->excluded = excluded->devices;
  }
  Snapshots snapshots(open->backend, open->devices, {.processes = false});
  const Outcome outcome = pick_from(snapshots, *open, *options);
  if (snapshots.any_stuck()) leave_stuck("pick", outcome);
  return outcome;
}

}  // namespace

extern const Command kPick{
    .name = "pick",
    .summary = "print free GPUs, for CUDA_VISIBLE_DEVICES",
    .groups = {{"Which",
                {{"-n, --count N", "how many (default 1)"},
                 {"--free SIZE", "at least this much free memory: 20GiB, 20G, 20000MiB"},
                 {"--max-util PCT", "at most this utilization"},
                 {"--max-memory PCT", "at most this much memory in use"},
                 {"--order BY",
                  "which first: most free memory (default), lowest utilization, index or power",
                  {"memory", "utilization", "index", "power"}},
                 {"--exclude DEVICE...", "never these; as for --device"},
                 {"--wait TIME", "look again every second until there are enough, at most this long"}}},
               device_flags("only these: index, UUID, PCI id, cuda:N or all, separated by commas (default: those that "
                            "CUDA_VISIBLE_DEVICES leaves)"),
               {"How to print them",
                {{"--format NAME", "what to print (default index)", {"index", "uuid", "env"}},
                 {"--json", "print every candidate and why it was refused, as JSON"}}}},
    .examples = {{"gpu=$(profgpu pick --format uuid) && CUDA_VISIBLE_DEVICES=$gpu python train.py",
                  "the GPU with most free memory"},
                 {"profgpu pick --count 2 --free 20GiB --max-util 10", "two idle GPUs with 20 GiB to spare"},
                 {"env $(profgpu pick -n 4 --wait 1h --format env) torchrun train.py", "wait up to an hour for four"}},
    .notes =
        "Indices are the driver's, in PCI bus order. CUDA numbers the fastest GPU first unless "
        "CUDA_DEVICE_ORDER=PCI_BUS_ID is set: --format env sets it, --format uuid does not need it. MIG instances are "
        "printed by UUID, as CUDA expects. Only GPUs that CUDA_VISIBLE_DEVICES leaves are candidates.\n\n"
        "Nothing is reserved: two commands that pick at the same moment pick the same GPU. With too few GPUs, pick prints "
        "nothing on standard output (except the JSON document) and exits 1, so that `&&` keeps a program from starting.\n\n"
        "Exit status: 0 printed, 1 too few (standard error has a table of reasons), 2 usage. To see who uses a GPU: "
        "profgpu stat.",
    .run = pick,
};

}  // namespace profgpu
