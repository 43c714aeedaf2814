// The section `snapshot`: what PyTorch's allocator held, at the snapshot and at the peak of its recorded history.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/memory/memory_categories.h"
#include "analyse/report/document.h"
#include "trace/memory_snapshot.h"

namespace profgpu {

/// Blocks of one state in segments of one kind.
struct BlockStateRow {
  int32_t device = 0;
  std::string state;  ///< active_allocated, active_pending_free, inactive
  std::string pool;   ///< large, small
  int64_t bytes = 0, requested_bytes = 0, blocks = 0;

  void fields(auto&& v) const {
    v("device", device), v("state", state), v("pool", pool), v("total_bytes", bytes);
    v("requested_bytes", requested_bytes), v("blocks", blocks);
  }
};

/// What one category holds at the peak. Those of all categories add up to the peak.
struct CategoryRow {
  MemoryCategory category = MemoryCategory::kUnknown;
  int64_t bytes = 0, blocks = 0;  ///< blocks 0: a memory timeline has none
  double peak_pct = 0;
  int64_t certain_bytes = 0;    ///< the file, the pool or the stack says it
  int64_t inferred_bytes = 0;   ///< from lifetimes and sizes alone; the rest: from stack and lifetime
  int64_t attention_bytes = 0;  ///< made in attention itself

  void fields(auto&& v) const {
    v("category", memory_category_name(category)), v("held_bytes", bytes), v("blocks", only_if(blocks > 0, blocks));
    v("peak_pct", peak_pct), v("certain_bytes", certain_bytes), v("inferred_bytes", inferred_bytes);
    v("attention_bytes", only_if(blocks > 0, attention_bytes));
  }
};

/// What one line of the program holds at the peak, by category.
struct HolderRow {
  std::string function, file;
  int32_t line = 0;
  std::string module;  ///< classes of modules that call it: "GPT.Block.MLP"; empty: none, or not recorded
  MemoryCategory category = MemoryCategory::kUnknown;
  std::string op;
  int64_t bytes = 0, blocks = 0;
  double peak_pct = 0;

  [[nodiscard]] std::string place() const;  ///< "step (optim/adamw.py:77)"
  void fields(auto&& v) const {
    v("function", function), v("file", unless_empty(file)), v("line", only_if(line > 0, line));
    v("module", unless_empty(module));
    v("category", memory_category_name(category)), v("op", unless_empty(op)), v("held_bytes", bytes), v("blocks", blocks);
    v("peak_pct", peak_pct);
  }
};

struct GrowingLine {
  std::string function, file;
  int32_t line = 0;
  std::optional<int32_t> device;                            ///< none: there is only one, or it is the host's memory
  MemoryCategory category = MemoryCategory::kUnknown;
  std::string cause;                                        ///< retained_graph, reference_cycle, kept_tensors, unknown
  std::string per;                                          ///< step, backward pass, forward pass, generation
  int64_t growth_bytes = 0, low_bytes = 0, high_bytes = 0;  ///< of it, with the 95 % interval
  int64_t bytes = 0, blocks = 0;                            ///< held after the last step

  [[nodiscard]] std::string place() const;
  void fields(auto&& v) const {
    v("function", function), v("file", unless_empty(file)), v("line", only_if(line > 0, line));
    v("category", memory_category_name(category)), v("cause", cause), v("per", per);
    v("growth_bytes", growth_bytes);
    v("low_bytes", low_bytes), v("high_bytes", high_bytes), v("held_bytes", bytes), v("blocks", blocks);
    v("device", device);
  }
};

/// What a line keeps of each step of a history that has too few to judge growth.
struct KeptOfSteps {
  std::string function, file;
  int32_t line = 0;
  int64_t bytes = 0, steps = 0;  ///< kept in all, of so many steps

  [[nodiscard]] std::string place() const;
  void fields(auto&& v) const {
    v("function", function), v("file", unless_empty(file)), v("line", only_if(line > 0, line));
    v("held_bytes", bytes), v("steps", steps);
  }
};

/// What one line allocates and only Python's garbage collector frees.
struct CycleRow {
  std::string function, file;
  int32_t line = 0;
  MemoryCategory category = MemoryCategory::kUnknown;
  int64_t bytes = 0;                        ///< held at the peak
  int64_t collected_bytes = 0, blocks = 0;  ///< over the history
  int64_t runs = 0;                         ///< of the collector

  [[nodiscard]] std::string place() const;
  [[nodiscard]] int64_t bytes_per_run() const { return runs > 0 ? collected_bytes / runs : 0; }
  void fields(auto&& v) const {
    v("function", function), v("file", unless_empty(file)), v("line", only_if(line > 0, line));
    v("category", memory_category_name(category)), v("held_bytes", bytes), v("collected_bytes", collected_bytes);
    v("blocks", blocks), v("collector_runs", runs);
  }
};

/// The peak: what is said of it on the first screen.
struct SnapshotPeak {
  std::optional<int32_t> device;
  std::optional<int64_t> event, time_ns;
  std::optional<int64_t> step;  ///< counted from the first that is seen; none: no optimizer steps
  std::string phase;            ///< forward, backward, optimizer, unknown
  int64_t allocated_bytes = 0;  ///< as requested: the categories add up to it
  std::optional<int64_t> reserved_bytes, unused_bytes;
  std::vector<CategoryRow> categories;  ///< largest first
  std::vector<HolderRow> holders;       ///< largest first; at most 100

  void fields(auto&& v) const {
    v("device", device), v("event", event), v("time_ns", time_ns), v("step", step), v("phase", phase);
    v("allocated_bytes", allocated_bytes), v("reserved_bytes", reserved_bytes), v("unused_bytes", unused_bytes);
    v("categories", categories), v("holders", holders);
  }
};

struct SnapshotDevice {
  int32_t device = 0;
  int64_t segments = 0, blocks = 0, events = 0;
  bool history_recorded = false;  ///< else the peak is not known, and what is said of it is what the snapshot holds
  int64_t reserved_bytes = 0, allocated_bytes = 0, active_bytes = 0, requested_bytes = 0;
  int64_t largest_free_block_bytes = 0;
  int64_t peak_allocated_bytes = 0;            ///< as requested
  std::optional<int64_t> peak_event;           ///< place in the device's trace; none: before the first
  std::optional<int64_t> peak_reserved_bytes;  ///< highest; none: not known
  std::optional<SnapshotPeak> peak;            ///< where several devices hold memory, that of each

  void fields(auto&& v) const {
    v("device", device), v("segments", segments), v("blocks", blocks), v("events", events);
    v("reserved_bytes", reserved_bytes), v("allocated_bytes", allocated_bytes), v("active_bytes", active_bytes);
    v("requested_bytes", requested_bytes), v("largest_free_block_bytes", largest_free_block_bytes);
    v("peak_allocated_bytes", only_if(history_recorded, peak_allocated_bytes)), v("peak_event", peak_event);
    v("peak_reserved_bytes", peak_reserved_bytes), v("history_recorded", history_recorded), v("peak", peak);
  }
};

enum class OomCause : uint8_t { kUnknown, kNeed, kFragmentation, kLimit, kOutside, kRequest, kGrowth };
std::string_view oom_cause_name(OomCause cause);

/// An allocation that failed: the last one.
struct OutOfMemory {
  int32_t device = 0;
  int64_t event = 0;  ///< place in the device's trace
  std::optional<int64_t> time_ns;
  int64_t requested_bytes = 0, device_free_bytes = 0;
  int64_t allocated_bytes = 0;
  std::optional<int64_t> reserved_bytes, unused_bytes;  ///< the second: reserved and not allocated
  /// All that the process could have had: what it reserved, and what was free.
  [[nodiscard]] std::optional<int64_t> reachable_bytes() const {
    return reserved_bytes ? std::optional(*reserved_bytes + device_free_bytes) : std::nullopt;
  }
  /// Whether the free blocks that it could have had, and what the device had free, would have been enough together.
  [[nodiscard]] bool fits_in_pieces() const {
    return unused_bytes && usable_bytes.value_or(*unused_bytes) + device_free_bytes >= requested_bytes;
  }
  /// In the snapshot, of the pool that was asked; none where something was allocated or freed since.
  std::optional<int64_t> largest_free_block_bytes;
  std::optional<int64_t> usable_bytes;   ///< of the unused, the free blocks that the request could have had; as above
  std::optional<int64_t> outside_bytes;  ///< neither reserved by this process nor free; none: the capacity is not known
  std::optional<int64_t> new_state_bytes;  ///< the first pass with optimizer states: those; none: it is not
  int64_t steps_after = 0;                 ///< that the program completes after it
  bool in_optimizer = false;               ///< the optimizer's step asks for it, while next to no activation is held
  std::optional<int64_t> grown_bytes;      ///< of growth: what lines keep of the steps so far
  /// Fragmentation: much was unused, and would have been enough; limit: the process's own refused it; outside: most of
  /// the device is held by others; request: this one alone is more than the process could ever have; growth: without
  /// what lines keep of every step it would have fitted.
  OomCause cause = OomCause::kUnknown;
  std::string function, file;
  int32_t line = 0;

  [[nodiscard]] std::string place() const;
  void fields(auto&& v) const {
    v("device", device), v("event", event), v("time_ns", time_ns), v("requested_bytes", requested_bytes);
    v("device_free_bytes", device_free_bytes), v("allocated_bytes", allocated_bytes);
    v("reserved_bytes", reserved_bytes), v("unused_bytes", unused_bytes);
    v("largest_free_block_bytes", largest_free_block_bytes), v("usable_bytes", usable_bytes);
    v("outside_bytes", outside_bytes), v("new_state_bytes", new_state_bytes), v("steps_after", steps_after);
    v("in_optimizer", in_optimizer), v("grown_bytes", grown_bytes);
    v("cause", oom_cause_name(cause));
    v("function", function), v("file", unless_empty(file)), v("line", only_if(line > 0, line));
  }
};

/// The line whose short-lived allocations stand highest above everything else.
struct PeakSpike {
  std::string function, file;
  int32_t line = 0;
  int64_t bytes = 0;               ///< that it holds at the peak
  int64_t peak_without_bytes = 0;  ///< the peak, had it allocated nothing
  int64_t lifetime_events = 0;     ///< the longest of them
  std::string node = {};           ///< of the backward pass, "MulBackward0", whose line is not known; else empty
  /// The line that calls the node's operator, "softmax (model.py:7)", or one of two; empty: none or more are known. Not
  /// documented.
  std::string forward = {};
  bool workspace = false;          ///< of a library
  bool cross_entropy = false;      ///< of a loss over a vocabulary or classes, or of its backward pass
  bool clips = false;              ///< of the clipping of gradients

  [[nodiscard]] std::string place() const;
  void fields(auto&& v) const {
    v("function", function), v("file", unless_empty(file)), v("line", only_if(line > 0, line)), v("held_bytes", bytes);
    v("peak_without_bytes", peak_without_bytes), v("lifetime_events", lifetime_events);
  }
};

/// Memory of the host that PyTorch has pinned for copies.
struct PinnedMemory {
  int64_t events = 0;
  std::optional<int64_t> reserved_bytes;                 ///< with what is cached; none: the file has no segments of it
  int64_t allocated_bytes = 0, peak_allocated_bytes = 0;  ///< as requested
  std::vector<GrowingLine> growth;                       ///< fastest first; at most 100

  void fields(auto&& v) const {
    v("events", events), v("reserved_bytes", reserved_bytes), v("allocated_bytes", allocated_bytes);
    v("peak_allocated_bytes", peak_allocated_bytes), v("growth", growth);
  }
};

struct SnapshotPoint {
  int64_t event = 0;
  std::optional<int64_t> time_ns;
  int64_t allocated_bytes = 0;
  std::optional<int64_t> reserved_bytes;

  void fields(auto&& v) const {
    v("event", event), v("time_ns", time_ns), v("allocated_bytes", allocated_bytes),
        v("reserved_bytes", reserved_bytes);
  }
};

/// What other settings of the allocator would have given, from the first event on.
struct SettingRow {
  std::string settings;  ///< as in PYTORCH_CUDA_ALLOC_CONF
  int64_t peak_reserved_bytes = 0;
  int64_t saved_bytes = 0;  ///< of the recorded peak; below 0: it needs more

  void fields(auto&& v) const {
    v("settings", settings), v("peak_reserved_bytes", peak_reserved_bytes), v("saved_bytes", saved_bytes);
  }
};

/// The recorded requests of the peak's device, played through a model of PyTorch's allocator.
struct SnapshotReplay {
  bool exact = false;                    ///< each segment and each block is where PyTorch has it, to the end
  std::optional<int64_t> departs_event;  ///< the first event at which the model does something else; none: not played
  std::string departure;                 ///< or why nothing was played
  std::optional<int64_t> peak_reserved_bytes;
  std::vector<SettingRow> settings;  ///< only where the replay is exact; what saves most first

  void fields(auto&& v) const {
    v("exact", exact), v("departs_event", departs_event), v("departure", unless_empty(departure));
    v("peak_reserved_bytes", peak_reserved_bytes), v("settings", settings);
  }
};

/// What a change to the job would make of the peak.
struct SavingRow {
  std::string change, assumes;
  int64_t peak_bytes = 0, saved_bytes = 0;

  void fields(auto&& v) const {
    v("change", change), v("assumes", assumes), v("peak_bytes", peak_bytes), v("saved_bytes", saved_bytes);
  }
};

/// What is held at the peak and is no longer needed.
struct EarlyFreeRow {
  MemoryCategory category = MemoryCategory::kUnknown;
  std::string function, file;  ///< of gradients and of a graph empty
  int32_t line = 0;
  int64_t graph_lines = 0, graph_blocks = 0;  ///< of a forward pass's graph that several lines made; 0: of one line
  int64_t bytes = 0;                         ///< at the peak
  int64_t peak_bytes = 0, saved_bytes = 0;  ///< had all of that line been freed in time
  bool collected = false;                    ///< Python's garbage collector frees it

  [[nodiscard]] std::string place() const;
  void fields(auto&& v) const {
    v("category", memory_category_name(category)), v("function", unless_empty(function)), v("file", unless_empty(file));
    v("line", only_if(line > 0, line)), v("held_bytes", bytes), v("peak_bytes", peak_bytes);
    v("saved_bytes", saved_bytes), v("collected", collected);
    v("graph_lines", only_if(graph_lines > 0, graph_lines)), v("graph_blocks", only_if(graph_lines > 0, graph_blocks));
  }
};

/// What is allocated at each moment, in two parts: what stays and what grows with the batch. Only moments are kept of
/// which no other has at least as much of both, so that any capacity can be asked for.
struct BatchLevels {
  std::map<int64_t, int64_t> grows_by_fixed;  ///< falls while the key rises

  void add(int64_t fixed_bytes, int64_t grows_bytes);
  /// The largest batch that fits into `capacity_bytes` at every moment; none: nothing grows.
  [[nodiscard]] std::optional<double> largest(double capacity_bytes) const;
};

enum class BatchOutcome : uint8_t {
  kFits,
  kFailed,      ///< memory ran out; a complete step before tells what its pass would have taken
  kUnfinished,  ///< memory ran out, and nothing tells what its pass would have taken
};
std::string_view batch_outcome_name(BatchOutcome outcome);

/// How the peak follows the batch, from this one run: what a forward and a backward pass make grows with it, the rest
/// does not. Batches are in parts of this run's: of the one that failed, where the history ends so.
struct BatchFit {
  BatchOutcome outcome = BatchOutcome::kFits;
  bool after_failure = false;  ///< an earlier pass ran out of memory, and the program went on
  int64_t fixed_bytes = 0, scaling_bytes = 0;  ///< at the highest moment of that batch
  std::optional<int64_t> full_peak_bytes;      ///< of a batch that failed: what its whole step would have peaked at
  /// With twice the batch; the second: all that is not known grows. None: the pass was not finished.
  std::optional<int64_t> double_peak_bytes, double_high_bytes;
  std::optional<int64_t> capacity_bytes;  ///< for all that is reserved; none: not known
  /// The largest that fits. Lower bound: all that is not known grows; upper: nothing is reserved but unused. Of a batch
  /// that failed they are below 1; where its pass was not finished, only the upper bound is known.
  std::optional<double> largest, largest_low, largest_high;
  BatchLevels likely, most;  ///< what is not known: stays, grows
  double overhead = 1;       ///< bytes that are reserved for one that is allocated

  void fit_into(int64_t capacity);
  void fields(auto&& v) const {
    v("outcome", batch_outcome_name(outcome)), v("fixed_bytes", fixed_bytes), v("scaling_bytes", scaling_bytes);
    v("full_peak_bytes", full_peak_bytes), v("double_peak_bytes", double_peak_bytes);
    v("double_high_bytes", double_high_bytes), v("capacity_bytes", capacity_bytes), v("largest", largest);
    v("largest_low", largest_low), v("largest_high", largest_high);
  }
};

/// What the device's memory holds besides PyTorch's, by its samples: the highest of each.
struct OutsideMemory {
  std::optional<int64_t> capacity_bytes, used_bytes;  ///< of the device
  std::optional<int64_t> process_bytes;               ///< of the process that the snapshot is of
  std::optional<int64_t> own_bytes;    ///< of that process, and not reserved by PyTorch: context, NCCL, cuBLAS
  std::optional<int64_t> other_bytes;  ///< of other processes

  void fields(auto&& v) const {
    v("capacity_bytes", capacity_bytes), v("used_bytes", used_bytes), v("process_bytes", process_bytes);
    v("own_bytes", own_bytes), v("other_bytes", other_bytes);
  }
};

/// What is held at a time, by category.
struct CategoryPoint {
  int64_t event = 0;
  std::optional<int64_t> time_ns;
  std::optional<int64_t> reserved_bytes;
  std::optional<int64_t> pending_free_bytes;  ///< of what is allocated: freed, but other streams may still use it
  std::array<int64_t, kMemoryCategories> bytes{};

  void fields(auto&& v) const {
    v("event", event), v("time_ns", time_ns), v("reserved_bytes", reserved_bytes);
    v("pending_free_bytes", pending_free_bytes);
    const auto held = [&](MemoryCategory c) { return bytes[static_cast<size_t>(c)]; };
    int64_t others = 0;
    for (const int64_t b : bytes) others += b;
    for (const MemoryCategory c :
         {MemoryCategory::kParameter, MemoryCategory::kGradient, MemoryCategory::kOptimizerState,
          MemoryCategory::kActivation, MemoryCategory::kTemporary})
      v(std::string(memory_category_name(c)) + "_bytes", held(c)), others -= held(c);
    v("other_bytes", others);
  }
};
constexpr size_t kCategoryPoints = 100;

constexpr size_t kSnapshotPoints = 500;

struct SnapshotSection {
  bool categories_only = false;  ///< a memory timeline: neither blocks nor what is reserved, nor of which device
  int64_t segments = 0, blocks = 0, events = 0;  ///< of all devices
  int64_t reserved_bytes = 0, allocated_bytes = 0, active_bytes = 0, requested_bytes = 0;
  int64_t peak_allocated_bytes = 0;  ///< of the device that ran out of memory, else of the one whose peak is highest
  std::optional<int64_t> peak_event;
  bool history_recorded = true;                      ///< of that device; else only what is held now is known
  bool cut = false;                                  ///< the file ends early
  bool stacks_recorded = true;                       ///< else neither categories nor lines can be told
  bool truncated = false;                            ///< the history does not reach back to the first allocation
  std::vector<std::string> left_out;   ///< events that the recording skipped: "free_completed", "segments"
  std::optional<int64_t> steps;                      ///< optimizer steps in the history
  std::optional<int64_t> duplicate_parameter_bytes;  ///< held at the peak beside other copies, in other types
  std::string allocator_settings;
  bool expandable_segments = false;  ///< of these
  std::vector<SnapshotDevice> devices;
  std::vector<BlockStateRow> states;
  SnapshotPeak peak;
  std::vector<GrowingLine> growth;  ///< fastest first; at most 100
  std::optional<KeptOfSteps> kept_of_steps;  ///< where there are too few steps for `growth`
  std::vector<CycleRow> cycles;     ///< of most bytes first; at most ten
  std::optional<PinnedMemory> pinned;  ///< none: not recorded
  std::optional<OutOfMemory> oom;
  std::optional<PeakSpike> spike;
  std::vector<EarlyFreeRow> early_frees;  ///< largest first; at most ten
  std::vector<SavingRow> savings;        ///< largest first
  std::optional<BatchFit> batch;          ///< none: nothing of a forward pass is held at the peak
  std::optional<OutsideMemory> outside;   ///< none: no samples of the device's memory
  std::optional<SnapshotReplay> replay;  ///< none: no history
  std::vector<SnapshotPoint> timeline;   ///< of the peak's device: at most 500 points; keeps every peak
  std::vector<CategoryPoint> category_timeline;  ///< the same at at most 100 points

  void fields(auto&& v) const {
    const bool full = !categories_only;
    v("segments", only_if(full, segments)), v("blocks", only_if(full, blocks)), v("events", events);
    v("reserved_bytes", only_if(full, reserved_bytes)), v("allocated_bytes", allocated_bytes);
    v("active_bytes", only_if(full, active_bytes)), v("requested_bytes", only_if(full, requested_bytes));
    v("history_recorded", history_recorded), v("stacks_recorded", stacks_recorded);
    v("peak_allocated_bytes", only_if(history_recorded, peak_allocated_bytes)), v("peak_event", peak_event);
    v("truncated", truncated), v("left_out", left_out);
    v("steps", steps), v("duplicate_parameter_bytes", duplicate_parameter_bytes);
    v("allocator_settings", unless_empty(allocator_settings)), v("devices", devices), v("states", states);
    v("peak", peak), v("growth", growth), v("kept_of_steps", kept_of_steps);
    v("cycles", cycles), v("pinned", pinned), v("oom", oom), v("spike", spike);
    v("early_frees", early_frees), v("savings", savings), v("batch", batch), v("outside", outside);
    v("replay", replay), v("timeline", timeline), v("category_timeline", category_timeline);
  }
};

/// `capacity_bytes`: of the device, where it is known.
SnapshotSection snapshot_section(const MemorySnapshot& snapshot, std::optional<int64_t> capacity_bytes = {});

/// "Peak 6.53 GiB at step 1, in the optimizer step: activations 2.1 GiB (of which attention 0.4), ...; reserved but
/// unused 410 MiB." Without a history what is held, and how to record one. `capacity_bytes`: of the device, where it is
/// known.
std::string peak_sentence(const SnapshotSection& snapshot, std::optional<int64_t> capacity_bytes);
/// "at the peak", or "when the snapshot was taken" where no history tells the peak.
std::string_view held_when(const SnapshotSection& snapshot);
/// The peak of a device, if several have one of their own; else the section's.
const SnapshotPeak& peak_of(const SnapshotSection& snapshot, int32_t device);
/// " on device 1" where several devices hold memory.
std::string on_device(const SnapshotSection& snapshot, int32_t device);
/// "At twice the batch size the peak would be 21.3 GiB; 8.1 GiB of this run's peak scales with the batch; the largest
/// batch that fits in 80.0 GiB is 4.2 times this one (3.9 to 4.4)."
std::string batch_sentence(const BatchFit& batch);
/// "zero_grad() right after step() would lower the peak by 1.2 GiB."
std::string early_free_sentence(const EarlyFreeRow& row);
/// Growth that no job runs out of memory by: a number that is kept for each step. Of a device with such a peak.
bool is_little_growth(int64_t bytes_per_step, int64_t peak_bytes);
/// "optimizer states"
std::string_view category_words(MemoryCategory category);

}  // namespace profgpu
