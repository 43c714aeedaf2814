#include "analyse/memory/snapshot_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "analyse/memory/allocator_replay.h"
#include "analyse/memory/batch_fit.h"
#include "analyse/memory/category_levels.h"
#include "analyse/memory/category_timeline.h"
#include "analyse/memory/early_frees.h"
#include "analyse/memory/lifetimes.h"
#include "analyse/memory/memory_growth.h"
#include "analyse/memory/memory_peak.h"
#include "analyse/memory/memory_phases.h"
#include "analyse/memory/memory_savings.h"
#include "analyse/memory/out_of_memory.h"
#include "analyse/memory/reference_cycles.h"
#include "analyse/memory/stack_facts.h"
#include "analyse/report/quantity.h"
#include "base/text.h"

namespace profgpu {
namespace {

constexpr size_t kMaxGrowing = 100;

SnapshotDevice device_row(const MemorySnapshot& snapshot, const MemoryHistory& history) {
  SnapshotDevice d;
  d.device = history.device;
  d.events = history.end - history.first;
  for (const MemorySegment& s : snapshot.segments) {
    if (s.device != history.device) continue;
    ++d.segments;
    d.blocks += s.blocks;
    d.reserved_bytes += s.total, d.allocated_bytes += s.allocated, d.active_bytes += s.active;
    d.requested_bytes += s.requested;
    for (const MemoryBlock& block : snapshot.blocks_of(s))
      if (block.state == BlockState::kInactive)
        d.largest_free_block_bytes = std::max(d.largest_free_block_bytes, block.size);
  }
  d.history_recorded = history.recorded;
  d.peak_allocated_bytes = history.peak_bytes;
  if (history.peak_row) d.peak_event = *history.peak_row - history.first;
  return d;
}

void add_states(const MemorySnapshot& snapshot, int32_t device, std::vector<BlockStateRow>& rows) {
  for (const bool large : {true, false})
    for (const BlockState state : {BlockState::kAllocated, BlockState::kPendingFree, BlockState::kInactive}) {
      BlockStateRow row{device, std::string(block_state_name(state)), large ? "large" : "small"};
      for (const MemorySegment& s : snapshot.segments) {
        if (s.device != device || s.large != large) continue;
        for (const MemoryBlock& block : snapshot.blocks_of(s)) {
          if (block.state != state) continue;
          row.bytes += block.size, ++row.blocks;
          if (state != BlockState::kInactive) row.requested_bytes += block.requested;
        }
      }
      if (row.blocks > 0) rows.push_back(std::move(row));
    }
}

SnapshotPoint point_of(const MemorySnapshot& snapshot, const MemoryHistory& history, const MemoryLevel& level) {
  const int64_t time_us = snapshot.events.time_us(level.row);
  return {level.row - history.first, only_if(time_us != AllocationEvent::kNoTime, 1000 * time_us),
          level.allocated_bytes, level.reserved_bytes};
}

// Of each stretch of events the one with the highest level; sets the highest reserved of all, if events tell any.
std::vector<SnapshotPoint> timeline(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                    std::optional<int64_t>& peak_reserved) {
  std::vector<SnapshotPoint> points;
  const uint32_t count = history.end - history.first;
  const uint32_t stretch = std::max<uint32_t>((count + kSnapshotPoints - 1) / kSnapshotPoints, 1);
  peak_reserved = history.initial_reserved_bytes;
  bool recorded = history.recorded;
  LevelWalk walk(snapshot, history);
  MemoryLevel level;
  MemoryLevel top;
  bool fresh = true;  // of a stretch
  for (uint32_t i = 0; walk.next(level); ++i) {
    recorded |= level.reserved_bytes != history.initial_reserved_bytes;
    if (level.reserved_bytes && peak_reserved) peak_reserved = std::max(*peak_reserved, *level.reserved_bytes);
    if (fresh || level.allocated_bytes > top.allocated_bytes) top = level;
    fresh = false;
    if (i % stretch != stretch - 1 && i + 1 != count) continue;
    points.push_back(point_of(snapshot, history, top));
    fresh = true;
  }
  if (!recorded) peak_reserved.reset();
  return points;
}

std::vector<GrowingLine> growing_lines(const std::vector<GrowingStack>& stacks, const StackBook& book,
                                       std::string_view per, std::optional<int32_t> device = {}) {
  std::vector<GrowingLine> lines;
  for (size_t i = 0; i < std::min(stacks.size(), kMaxGrowing); ++i) {
    const GrowingStack& s = stacks[i];
    MemoryLine at = book.line(s.stack);
    lines.push_back({std::move(at.function), std::move(at.file), at.line, device, s.category,
                     std::string(growth_cause_name(s.cause)), std::string(per), whole_ns(s.bytes_per_step),
                     whole_ns(s.low),
                     whole_ns(s.high), s.bytes, s.blocks});
  }
  return lines;
}

// The device's steps on the host's clock.
std::vector<uint32_t> ends_on_host(const AllocationEvents& events, const MemoryHistory& host,
                                   const std::vector<uint32_t>& device_ends) {
  std::vector<uint32_t> ends;
  uint32_t row = host.first;
  for (const uint32_t end : device_ends) {
    while (row < host.end && events.time_us(row) < events.time_us(end)) ++row;
    ends.push_back(row);
  }
  return ends;
}

PinnedMemory pinned_memory(const MemorySnapshot& snapshot, const MemoryHistory& host, const StackBook& stacks,
                           const std::vector<uint32_t>& device_ends) {
  const SnapshotDevice row = device_row(snapshot, host);
  PinnedMemory out;
  out.events = row.events;
  out.reserved_bytes = only_if(row.segments > 0, row.reserved_bytes);
  for (const Allocation& a : host.allocations)
    if (a.freed == Allocation::kOutside) out.allocated_bytes += a.bytes;
  out.peak_allocated_bytes = host.peak_bytes;
  const std::vector<CategoryOf> unknown(host.allocations.size());
  const GrowthSteps steps{"step", ends_on_host(snapshot.events, host, device_ends)};
  out.growth = growing_lines(growing_stacks(snapshot, host, unknown, stacks, steps), stacks, steps.per);
  for (GrowingLine& line : out.growth)
    if (line.cause != growth_cause_name(GrowthCause::kCycle)) line.cause = growth_cause_name(GrowthCause::kUnknown);
  return out;
}

struct OtherSetting {
  std::string_view text;
  void (*apply)(AllocatorSettings&);
};
constexpr OtherSetting kOtherSettings[] = {
    {"expandable_segments:True", [](AllocatorSettings& s) { s.expandable_segments = true; }},
    {"max_split_size_mb:128", [](AllocatorSettings& s) { s.max_split_bytes = int64_t{128} << 20; }},
    {"max_split_size_mb:512", [](AllocatorSettings& s) { s.max_split_bytes = int64_t{512} << 20; }},
    {"roundup_power2_divisions:8", [](AllocatorSettings& s) { s.roundup_divisions.fill(8); }}};

std::optional<SnapshotReplay> snapshot_replay(const MemorySnapshot& snapshot, const MemoryHistory& history) {
  if (const std::string_view why_not = why_no_replay(snapshot, history); !why_not.empty()) {
    SnapshotReplay out;
    out.departure = why_not;
    return out;
  }
  const AllocatorReplay same = replayed(snapshot, history);
  SnapshotReplay out;
  out.exact = !same.departs_row;
  if (same.departs_row) out.departs_event = *same.departs_row - history.first;
  out.departure = same.departure;
  out.peak_reserved_bytes = same.peak_reserved_bytes;
  for (const OtherSetting& other : kOtherSettings) {
    AllocatorSettings settings = snapshot.settings;
    other.apply(settings);
    if (!out.exact || settings == snapshot.settings) continue;
    const int64_t peak = replayed_with(snapshot, history, settings).peak_reserved_bytes;
    out.settings.push_back({std::string(other.text), peak, same.peak_reserved_bytes - peak});
  }
  std::stable_sort(out.settings.begin(), out.settings.end(),
                   [](const SettingRow& a, const SettingRow& b) { return a.saved_bytes > b.saved_bytes; });
  return out;
}

std::string place_of(const std::string& function, const std::string& file, int32_t line) {
  return file.empty() ? function : fmt::format("{} ({}:{})", function, file, line);
}

void add_kept_of_steps(const MemoryHistory& history, const std::vector<CategoryOf>& categories, const StackBook& stacks,
                       const MemoryPhases& phases, SnapshotSection& out) {
  const auto kept = kept_of_each_step(history, categories, stacks, phases);
  if (!kept) return;
  MemoryLine at = stacks.line(kept->stack);
  out.kept_of_steps = {std::move(at.function), std::move(at.file), at.line, kept->bytes, kept->steps};
}

// Stacks of a forward pass whose tensors are kept for a backward pass that never comes.
std::vector<uint32_t> add_growth(const MemorySnapshot& snapshot, const MemoryHistory& history,
                                 const std::vector<CategoryOf>& categories, const StackBook& stacks,
                                 const MemoryPhases& phases, std::optional<int32_t> device, bool shown,
                                 SnapshotSection& out) {
  const GrowthSteps steps = growth_steps(snapshot, history, stacks, phases);
  const std::vector<GrowingStack> growing = growing_stacks(snapshot, history, categories, stacks, steps);
  if (shown) {
    std::ranges::move(growing_lines(growing, stacks, steps.per, device), std::back_inserter(out.growth));
    std::ranges::move(growing_lines(growing_caches_of_before(history, categories, stacks), stacks, "generation", device),
                      std::back_inserter(out.growth));
  }
  std::vector<uint32_t> kept;
  for (const GrowingStack& g : growing)
    if (steps.per == "forward pass" && g.cause == GrowthCause::kRetainedGraph) kept.push_back(g.stack);
  std::ranges::sort(kept);
  return kept;
}

// Of several devices that hold memory: who holds each one's, and what grows on it.
void describe_each(const MemorySnapshot& snapshot, const std::vector<MemoryHistory>& histories, const StackBook& stacks,
                   SnapshotSection& out) {
  for (const MemoryHistory& history : histories) {
    if (history.device == kPinnedHost || history.peak_bytes == 0) continue;
    const MemoryPhases phases(snapshot, history, stacks);
    const std::vector<CategoryOf> categories = memory_categories(snapshot, history, stacks, phases);
    std::ranges::find(out.devices, history.device, &SnapshotDevice::device)->peak =
        snapshot_peak(snapshot, history, stacks, phases, categories);
    add_growth(snapshot, history, categories, stacks, phases, history.device, true, out);
  }
  std::ranges::stable_sort(out.growth, std::greater(), &GrowingLine::growth_bytes);
  out.growth.resize(std::min(out.growth.size(), kMaxGrowing));
}

std::string_view no_history_words(bool cut) {
  return cut ? " The file ends before its history, so the peak is unknown."
             : " No history was recorded, so the peak is unknown: call "
               "torch.cuda.memory._record_memory_history(max_entries=1_000_000) before the first allocation, or record "
               "with profgpu run --trace --memory.";
}

// Where an allocation failed, the process had all that was reserved and all that was free, or what its limit let it
// reserve.
std::optional<int64_t> capacity_of(const OutOfMemory& oom, std::optional<int64_t> peak_reserved_bytes,
                                   std::optional<int64_t> known_bytes) {
  if (oom.cause == OomCause::kLimit) return peak_reserved_bytes;
  const std::optional<int64_t> reachable = oom.reachable_bytes();
  return reachable && known_bytes ? std::min(*reachable, *known_bytes) : reachable ? reachable : known_bytes;
}

// Lines of a device that keep something of every step, if without it the request would have been served.
void judge_growth(const SnapshotSection& section, bool alone, OutOfMemory& oom) {
  constexpr int64_t kMuchKept = 10;   // this part of what the process could have
  const std::optional<int64_t> reachable = oom.reachable_bytes();
  const bool may_be = oom.cause == OomCause::kNeed || oom.cause == OomCause::kFragmentation;
  if (!may_be || !reachable || oom.steps_after > 0) return;
  int64_t kept = 0;
  for (const GrowingLine& line : section.growth)
    if (alone || line.device == oom.device) kept += line.bytes;
  if (kMuchKept * kept < *reachable || oom.allocated_bytes - kept + oom.requested_bytes > *reachable) return;
  oom.cause = OomCause::kGrowth;
  oom.grown_bytes = kept;
}

// A request that no device could have served says nothing of the batch, and a pass that needs more than there is does
// so however its memory lies.
void judge_failed_batch(OutOfMemory& oom, std::optional<BatchFit>& batch) {
  if (!batch || oom.steps_after > 0) return;
  if (oom.cause == OomCause::kRequest) return batch.reset();
  const std::optional<int64_t> reachable = oom.reachable_bytes();
  if (oom.cause == OomCause::kFragmentation && reachable && batch->full_peak_bytes > reachable)
    oom.cause = OomCause::kNeed;
}

bool frees_any(const AllocationEvents& events, const MemoryHistory& history) {
  for (uint32_t row = history.first; row < history.end; ++row)
    if (events.is_free(row)) return true;
  return false;
}

// States of the optimizer are as large for a batch of any size.
bool needs_any_batch(const MemoryHistory& history, const std::vector<CategoryOf>& categories, const OutOfMemory& oom) {
  if (!oom.in_optimizer) return false;
  constexpr int64_t kFew = 50;   // this part of what is allocated
  int64_t activations = 0;
  for (size_t i = 0; i < categories.size(); ++i)
    if (categories[i].category == MemoryCategory::kActivation &&
        history.allocations[i].is_alive_after(history.first + static_cast<uint32_t>(oom.event)))
      activations += history.allocations[i].bytes;
  return kFew * activations <= oom.allocated_bytes;
}

// What is said of the device that ran out of memory, else of the one whose peak is highest.
void describe_device(const MemorySnapshot& snapshot, const MemoryHistory& history, const StackBook& stacks,
                     std::optional<int64_t> capacity_bytes, bool alone, SnapshotSection& out) {
  const MemoryPhases phases(snapshot, history, stacks);
  const std::vector<CategoryOf> categories = memory_categories(snapshot, history, stacks, phases);
  out.history_recorded = history.recorded;
  if (history.recorded && !snapshot.events.completes_frees() && frees_any(snapshot.events, history))
    out.left_out.emplace_back("free_completed");
  if (history.lacks_segments) out.left_out.emplace_back("segments");
  out.peak_allocated_bytes = history.peak_bytes;
  if (history.peak_row) out.peak_event = *history.peak_row - history.first;
  if (phases.has_steps())
    out.steps = static_cast<int64_t>(phases.step_ends().size()) + (phases.is_optimizing() ? 1 : 0);
  out.peak = snapshot_peak(snapshot, history, stacks, phases, categories);
  out.duplicate_parameter_bytes = duplicate_parameters(history, stacks, categories);
  out.category_timeline = category_levels(snapshot, history, categories, out.timeline);
  const std::vector<uint32_t> graphs = add_growth(snapshot, history, categories, stacks, phases, {}, alone, out);
  if (!history.recorded) return;
  add_kept_of_steps(history, categories, stacks, phases, out);
  out.cycles = reference_cycles(snapshot, history, stacks, categories);
  out.spike = peak_spike(snapshot, history, stacks, categories);
  out.early_frees = early_frees(snapshot, history, stacks, phases, categories);
  out.savings = memory_savings(snapshot, history, stacks, categories, graphs);
  const SnapshotDevice* device =
      first_where(out.devices, [&](const SnapshotDevice& d) { return d.device == history.device; });
  const std::optional<int64_t> peak_reserved_bytes = device != nullptr ? device->peak_reserved_bytes : std::nullopt;
  const bool failed = out.oom && out.oom->device == history.device;
  if (failed) capacity_bytes = capacity_of(*out.oom, peak_reserved_bytes, capacity_bytes);
  out.batch = batch_fit(snapshot, history, stacks, phases, categories, capacity_bytes, peak_reserved_bytes);
  if (failed) {
    judge_failed_batch(*out.oom, out.batch);
    judge_growth(out, alone, *out.oom);
    out.oom->in_optimizer = needs_any_batch(history, categories, *out.oom);
    // Neither what the optimizer needs nor what each step leaves behind is a matter of the batch.
    const bool of_batch = !out.oom->in_optimizer && out.oom->cause != OomCause::kGrowth;
    if (!of_batch && out.oom->steps_after == 0) out.batch.reset();
  }
  if (failed)
    out.oom->new_state_bytes =
        first_states(history, phases, categories, history.first + static_cast<uint32_t>(out.oom->event));
  out.replay = snapshot_replay(snapshot, history);
}

// Null: only pinned memory of the host was recorded, or none.
const MemoryHistory* described_history(const std::vector<MemoryHistory>& histories,
                                       const std::optional<OutOfMemory>& oom) {
  const MemoryHistory* highest = nullptr;
  for (const MemoryHistory& history : histories) {
    if (history.device == kPinnedHost) continue;
    if (oom && oom->steps_after == 0 && history.device == oom->device) return &history;
    if (highest == nullptr || history.peak_bytes > highest->peak_bytes) highest = &history;
  }
  return highest;
}

}  // namespace

bool is_little_growth(int64_t bytes_per_step, int64_t peak_bytes) {
  constexpr int64_t kLittle = 1 << 20, kSmallPart = 1000;
  return bytes_per_step < kLittle && kSmallPart * bytes_per_step < peak_bytes;
}

std::string HolderRow::place() const { return place_of(function, file, line); }
std::string GrowingLine::place() const {
  return place_of(function, file, line) + (device ? fmt::format(" on device {}", *device) : "");
}
std::string OutOfMemory::place() const { return place_of(function, file, line); }
std::string KeptOfSteps::place() const { return place_of(function, file, line); }
std::string EarlyFreeRow::place() const { return place_of(function, file, line); }
std::string CycleRow::place() const { return place_of(function, file, line); }
std::string PeakSpike::place() const { return place_of(function, file, line); }

SnapshotSection snapshot_section(const MemorySnapshot& snapshot, std::optional<int64_t> capacity_bytes) {
  SnapshotSection out;
  const StackBook stacks(snapshot);
  const std::vector<MemoryHistory> histories = memory_histories(snapshot);
  out.allocator_settings = snapshot.settings.text;
  out.expandable_segments = snapshot.settings.expandable_segments;
  out.oom = out_of_memory(snapshot, histories, stacks, capacity_bytes);
  const MemoryHistory* const described = described_history(histories, out.oom);
  const MemoryHistory* pinned = nullptr;
  for (const MemoryHistory& history : histories) {
    if (history.device == kPinnedHost) {
      pinned = &history;
      continue;
    }
    SnapshotDevice d = device_row(snapshot, history);
    out.segments += d.segments, out.blocks += d.blocks, out.events += d.events;
    out.reserved_bytes += d.reserved_bytes, out.allocated_bytes += d.allocated_bytes;
    out.active_bytes += d.active_bytes, out.requested_bytes += d.requested_bytes;
    out.truncated |= history.truncated;
    std::vector<SnapshotPoint> points = timeline(snapshot, history, d.peak_reserved_bytes);
    if (&history == described) out.timeline = std::move(points);
    add_states(snapshot, d.device, out.states);
    out.devices.push_back(std::move(d));
  }
  if (described == nullptr && !snapshot.timeline.time_ns.empty()) return timeline_section(snapshot.timeline);
  if (described == nullptr) {
    if (pinned != nullptr) out.pinned = pinned_memory(snapshot, *pinned, stacks, {});
    return out;
  }
  out.cut = snapshot.cut;
  out.stacks_recorded = !stacks.empty();
  const bool alone = std::ranges::count_if(out.devices, [](const SnapshotDevice& d) {
                       return d.peak_allocated_bytes > 0;
                     }) < 2;
  if (!alone) describe_each(snapshot, histories, stacks, out);
  describe_device(snapshot, *described, stacks, capacity_bytes, alone, out);
  if (pinned != nullptr) {
    const MemoryPhases phases(snapshot, *described, stacks);
    out.pinned = pinned_memory(snapshot, *pinned, stacks, phases.step_ends());
  }
  return out;
}

std::string_view category_words(MemoryCategory category) {
  constexpr std::string_view kWords[kMemoryCategories] = {"parameters",        "gradients",
                                                          "optimizer states",  "activations",
                                                          "temporary tensors", "communication buffers",
                                                          "key-value cache",   "CUDA graph pools",
                                                          "memory pools",      "workspaces",
                                                          "inputs",            "autograd's own",
                                                          "unattributed"};
  return kWords[static_cast<size_t>(category)];
}

std::string_view held_when(const SnapshotSection& snapshot) {
  return snapshot.history_recorded ? "at the peak" : "when the snapshot was taken";
}

const SnapshotPeak& peak_of(const SnapshotSection& snapshot, int32_t device) {
  const SnapshotDevice* row = first_where(snapshot.devices, [&](const SnapshotDevice& d) { return d.device == device; });
  return row != nullptr && row->peak ? *row->peak : snapshot.peak;
}

std::string on_device(const SnapshotSection& snapshot, int32_t device) {
  const bool several = std::ranges::any_of(snapshot.devices, [](const SnapshotDevice& d) { return d.peak.has_value(); });
  return several ? fmt::format(" on device {}", device) : "";
}

std::string peak_sentence(const SnapshotSection& snapshot, std::optional<int64_t> capacity_bytes) {
  const SnapshotPeak& peak = snapshot.peak;
  const auto bytes = [](int64_t n) { return format_bytes(static_cast<double>(n)); };
  if (!snapshot.categories_only && snapshot.segments == 0 && snapshot.events == 0 && !snapshot.pinned)
    return "The snapshot holds neither memory nor a history." + std::string(no_history_words(snapshot.cut));
  std::string text = (snapshot.history_recorded ? "Peak " : "Held when the snapshot was taken: ") +
                     bytes(peak.allocated_bytes);
  if (!capacity_bytes && snapshot.outside) capacity_bytes = snapshot.outside->capacity_bytes;
  if (capacity_bytes) text += " of " + bytes(*capacity_bytes);
  if (peak.device) text += on_device(snapshot, *peak.device);
  if (peak.step && snapshot.steps.value_or(0) > 1) text += fmt::format(" at step {}", *peak.step);
  if (peak.phase == "optimizer") text += ", in the optimizer step";
  else if (peak.phase != "unknown") text += fmt::format(", in the {} pass", peak.phase);
  constexpr double kShownPct = 0.5;  // of the peak
  std::string parts;
  std::string_view before = snapshot.history_recorded ? ": " : ", of which ";
  for (const CategoryRow& c : peak.categories) {
    if (c.peak_pct < kShownPct) continue;
    parts += fmt::format("{}{} {}", std::exchange(before, ", "), category_words(c.category), bytes(c.bytes));
    if (c.category == MemoryCategory::kActivation && c.attention_bytes > 0)
      parts += fmt::format(" (of which attention {})", bytes(c.attention_bytes));
  }
  text += parts;
  if (peak.unused_bytes && *peak.unused_bytes > 0) text += "; reserved but unused " + bytes(*peak.unused_bytes);
  if (snapshot.outside && snapshot.outside->own_bytes)
    text += "; outside PyTorch " + bytes(*snapshot.outside->own_bytes);
  text += ".";
  if (!snapshot.history_recorded) text += no_history_words(snapshot.cut);
  return text;
}

namespace {

constexpr double kNearlyOne = 0.995;  // is shown as 1.00

std::string unfinished_batch_sentence(const BatchFit& batch) {
  std::string text = "The batch that failed does not fit";
  if (batch.capacity_bytes) text += " in " + format_bytes(static_cast<double>(*batch.capacity_bytes));
  if (batch.largest_high && *batch.largest_high < kNearlyOne)
    text += fmt::format("; at most {:.2f} times it does", *batch.largest_high);
  return text + ". Its pass had not ended, so its peak is unknown: record a step of a smaller batch.";
}

std::string failed_batch_sentence(const BatchFit& batch) {
  std::string text = fmt::format("The whole step of the batch that failed would peak at {}, as the last complete step "
                                 "shows",
                                 format_bytes(static_cast<double>(*batch.full_peak_bytes)));
  if (batch.largest && batch.largest_low && batch.largest_high)
    text += fmt::format("; the largest that fits in {} is {:.2f} times this one ({:.2f} to {:.2f})",
                        format_bytes(static_cast<double>(*batch.capacity_bytes)), *batch.largest, *batch.largest_low,
                        *batch.largest_high);
  else if (batch.capacity_bytes && *batch.full_peak_bytes <= *batch.capacity_bytes)
    text += fmt::format("; that is less than the {} there are, so what lies in pieces decides how much fits",
                        format_bytes(static_cast<double>(*batch.capacity_bytes)));
  return text + ".";
}

}  // namespace

std::string batch_sentence(const BatchFit& batch) {
  if (batch.outcome == BatchOutcome::kUnfinished) return unfinished_batch_sentence(batch);
  if (batch.outcome == BatchOutcome::kFailed) return failed_batch_sentence(batch);
  const auto bytes = [](int64_t n) { return format_bytes(static_cast<double>(n)); };
  std::string text = fmt::format("At twice the batch size{} the peak would be {}",
                                 batch.after_failure ? " of the steps after the failed allocation" : "",
                                 bytes(*batch.double_peak_bytes));
  const std::string most = bytes(*batch.double_high_bytes);
  if (most != bytes(*batch.double_peak_bytes)) text += fmt::format(" (up to {})", most);
  text += fmt::format("; {} of this run's peak scales with the batch", bytes(batch.scaling_bytes));
  if (batch.largest && batch.largest_low && batch.largest_high)
    text += fmt::format("; the largest batch that fits in {} is {:.1f} times this one ({:.1f} to {:.1f})",
                        bytes(*batch.capacity_bytes), *batch.largest, *batch.largest_low, *batch.largest_high);
  return text + ".";
}

std::string early_free_sentence(const EarlyFreeRow& row) {
  const auto bytes = [](int64_t n) { return format_bytes(static_cast<double>(n)); };
  if (row.category == MemoryCategory::kGradient)
    return fmt::format("{} of gradients are held at the peak after the step that used them: zero_grad() right after "
                       "step() would lower the peak by {}.",
                       bytes(row.bytes), bytes(row.saved_bytes));
  if (row.graph_lines > 0)
    return fmt::format("{} at the peak are the graph of an earlier forward pass, {} blocks of {} lines, that is still "
                       "held although its step is over: without it the peak would be {}.",
                       bytes(row.bytes), format_count(row.graph_blocks), row.graph_lines, bytes(row.peak_bytes));
  if (row.collected)
    return fmt::format("{} of {} from {} are held at the peak until Python's garbage collector frees them: without "
                       "their reference cycle the peak would be {} lower.",
                       bytes(row.bytes), category_words(row.category), row.place(), bytes(row.saved_bytes));
  return fmt::format("{} of {} from {} are held at the peak although their step is over: del would lower the peak by "
                     "{}.",
                     bytes(row.bytes), category_words(row.category), row.place(), bytes(row.saved_bytes));
}

}  // namespace profgpu
