#include "trace/import/torch_snapshot_rows.h"

#include <algorithm>

#include "base/decimal.h"
#include "base/text.h"

namespace profgpu {
namespace {

// Interned first, so that a key's string id is its place here.
enum SnapshotKey : uint32_t {
  kAction,
  kAddr,
  kDeviceFree,
  kSize,
  kStream,
  kTimeUs,
  kFramesKey,
  kPoolId,
  kSegmentPoolId,
  kCompileContext,
  kUserMetadata,
  kCategory,
  kNameKey,
  kFilename,
  kLine,
  kState,
  kRequestedSize,
  kAddress,
  kHistory,
  kRealSize,
  kTotalSize,
  kAllocatedSize,
  kActiveSize,
  kDevice,
  kSegmentType,
  kIsExpandable,
  kBlocksKey,
  kStage,
  kOriginalTrace,
  kKeyCount
};
constexpr std::string_view kKeys[kKeyCount] = {"action",
                                               "addr",
                                               "device_free",
                                               "size",
                                               "stream",
                                               "time_us",
                                               "frames",
                                               "pool_id",
                                               "segment_pool_id",
                                               "compile_context",
                                               "user_metadata",
                                               "category",
                                               "name",
                                               "filename",
                                               "line",
                                               "state",
                                               "requested_size",
                                               "address",
                                               "history",
                                               "real_size",
                                               "total_size",
                                               "allocated_size",
                                               "active_size",
                                               "device",
                                               "segment_type",
                                               "is_expandable",
                                               "blocks",
                                               "stage",
                                               "fx_original_trace"};

// Then the actions, in the order of AllocationAction, and what else is compared.
enum SnapshotWord : uint32_t {
  kFirstAction = kKeyCount,
  kFree = kFirstAction + static_cast<uint32_t>(AllocationAction::kOther),
  kStart,
  kSmall,
  kStateAllocated,
  kStatePending,
  kStateAwaiting,
  kWordEnd
};
constexpr std::string_view kWords[] = {
    "free", "START", "small", "active_allocated", "active_pending_free", "active_awaiting_free"};

// No device has more, and 2^13 of it add up within 63 bits.
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int64_t kMaxTime_us = int64_t{1} << 53;
constexpr size_t kMaxEvents = size_t{1} << 28;
constexpr size_t kMaxDevices = 4096;
constexpr size_t kMaxUnknown = 64;   // names

// Known, and not asked for by a row: the snapshot's own members, and frames of C++ apart.
constexpr std::string_view kOtherKeys[] = {"segments",      "device_traces", "allocator_settings", "external_annotations",
                                           "host_segments", "host_traces",   "cpp_frames",         "user_defined"};

}  // namespace

struct SnapshotRows::Members {
  std::span<const PickleValue> all;  ///< keys and values by turns
  uint32_t seen = 0;                 ///< bits of keys
  bool others = false;               ///< and there are keys that are not in `kKeys`
  uint32_t places[kKeyCount];        ///< in `all`, of those that were seen: the rest is not set, as most have few keys

  explicit Members(std::span<const PickleValue> of) : all(of) {
    for (size_t i = 0; i + 1 < all.size(); i += 2) {
      if (!all[i].is(PickleKind::kText) || all[i].index() >= kKeyCount) {
        others = true;
        continue;
      }
      places[all[i].index()] = static_cast<uint32_t>(i + 1);
      seen |= 1U << all[i].index();
    }
  }
  [[nodiscard]] bool has(SnapshotKey key) const { return (seen >> key & 1) != 0; }
  [[nodiscard]] PickleValue of(SnapshotKey key) const { return has(key) ? all[places[key]] : PickleValue(); }
  [[nodiscard]] StringId text(SnapshotKey key) const {
    const PickleValue v = of(key);
    return v.is(PickleKind::kText) ? StringId(v.index()) : StringId();
  }
};
static_assert(kKeyCount <= 32);

SnapshotRows::SnapshotRows() {
  for (const std::string_view key : kKeys) snapshot.strings.intern(key);
  for (uint32_t a = 0; a < static_cast<uint32_t>(AllocationAction::kOther); ++a)
    snapshot.strings.intern(allocation_action_name(static_cast<AllocationAction>(a)));
  for (const std::string_view word : kWords) snapshot.strings.intern(word);
}

PickleValue SnapshotRows::dict(const PickleObjects& objects, PickleValue before, std::span<const PickleValue> all) {
  if (!before.is_nothing()) return {};
  const Members members(all);
  const bool row = members.has(kAction) || members.has(kFilename) || members.has(kState) || members.has(kTotalSize);
  if (members.others && row) count_unknown(all);
  if (members.has(kAction))   // without a size the file ends within it
    return members.has(kSize) ? event(objects, members) : PickleValue();
  if (members.has(kFilename) && members.has(kNameKey)) {
    const StringId original = members.text(kOriginalTrace);
    if (const auto frame = original.valid() ? original_frame(std::string(snapshot.strings[original])) : std::nullopt)
      return PickleValue::rows(kFrames, snapshot.stacks.frame(*frame));
    const int64_t line = objects.integer(members.of(kLine)).value_or(0);
    const bool fits = line >= 0 && line <= INT32_MAX;
    return PickleValue::rows(kFrames, snapshot.stacks.frame({members.text(kNameKey), members.text(kFilename),
                                                             fits ? static_cast<int32_t>(line) : 0}));
  }
  if (members.has(kState) && members.has(kSize)) return block(objects, members);
  if (members.has(kTotalSize) && members.has(kBlocksKey)) return segment(objects, members);
  if (members.has(kStage) && members.has(kNameKey)) {
    const int64_t time = objects.integer(members.of(kTimeUs)).value_or(0);
    if (time < 0 || time > kMaxTime_us) {
      ++out_of_range;
      return {};
    }
    annotations_.push_back({time, members.text(kNameKey),
                            static_cast<int32_t>(objects.integer(members.of(kDevice)).value_or(0)),
                            members.text(kStage) == StringId(kStart)});
    return PickleValue::rows(kAnnotations, static_cast<uint32_t>(annotations_.size() - 1));
  }
  return {};
}

// Of code that FX generated, the line that it was made from: the innermost of the trace that is no library's, else the
// innermost. `  File "/me/model.py", line 15, in forward`, and below that the line itself.
std::optional<MemoryFrame> SnapshotRows::original_frame(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLineMark = "\", line ", kIn = ", in ";
  std::optional<MemoryFrame> innermost, own;
  for (const std::string_view line : pieces_of(trace, '\n')) {
    const size_t file = line.find(kFile), number = line.rfind(kLineMark), name = line.rfind(kIn);
    if (file == line.npos || number == line.npos || name == line.npos || number > name) continue;
    const std::string_view path = line.substr(file + kFile.size(), number - file - kFile.size());
    const size_t digits = number + kLineMark.size();
    const auto at = exact_number<int32_t>(line.substr(digits, name - digits));
    if (!at || *at < 0) continue;
    innermost = {StringId(text(line.substr(name + kIn.size()))), StringId(text(path)), *at};
    if (!contains_any(path, {"-packages/", "-packages\\", "/torch/"})) own = innermost;
  }
  return own ? own : innermost;
}

PickleValue SnapshotRows::sequence(const PickleObjects& objects, PickleValue before,
                                   std::span<const PickleValue> items) {
  const auto are = [&](Table table) {
    return std::all_of(items.begin(), items.end(), [&](PickleValue v) { return v.is_of(table); });
  };
  if (!items.empty() && items.front().is_of(kFrames) && are(kFrames)) {
    frames_.clear();
    if (before.is_of(kStacks)) {
      const auto [begin, end] = snapshot.stacks.frames_of(before.row());
      frames_.assign(begin, end);
    } else if (!before.is_nothing()) {
      return {};
    }
    for (const PickleValue v : items)
      for (uint32_t n = 0; n < v.count(); ++n) frames_.push_back(v.row() + n);
    return PickleValue::rows(kStacks, snapshot.stacks.stack(frames_));
  }
  if (items.size() != 2 || !before.is_nothing()) return {};
  const auto first = objects.integer(items[0]), second = objects.integer(items[1]);
  if (!first || !second) return {};
  auto& pools = snapshot.pools;
  const auto at = std::find(pools.rbegin(), pools.rend(), std::pair(*first, *second));
  if (at != pools.rend()) return PickleValue::rows(kPools, static_cast<uint32_t>(pools.rend() - at - 1));
  constexpr size_t kMaxPools = 1 << 16;
  if (pools.size() >= kMaxPools) return {};
  pools.emplace_back(*first, *second);
  return PickleValue::rows(kPools, static_cast<uint32_t>(pools.size() - 1));
}

int64_t SnapshotRows::size_of(const PickleObjects& objects, PickleValue value) {
  const int64_t size = objects.integer(value).value_or(0);
  if (size >= 0 && size <= kMaxBytes) return size;
  ++out_of_range;
  return 0;
}

uint32_t SnapshotRows::stack_of(const PickleObjects& objects, PickleValue frames) {
  frames = objects.resolved(frames);
  return frames.is_of(kStacks) ? frames.row() : MemoryStacks::kNone;
}

PickleValue SnapshotRows::event(const PickleObjects& objects, const Members& members) {
  AllocationKind kind;
  const StringId action = members.text(kAction);
  if (action.value >= kFirstAction && action.value < kFree)
    kind.action = static_cast<AllocationAction>(action.value - kFirstAction);
  else if (action.value == kFree)
    kind.action = AllocationAction::kFreeCompleted;
  else if (action.valid())
    count_unknown("action ", action);
  kind.stream = objects.integer(members.of(kStream)).value_or(0);
  if (const PickleValue pool = members.of(members.has(kPoolId) ? kPoolId : kSegmentPoolId); pool.is_of(kPools))
    kind.pool = pool.row();
  kind.compile_context = members.text(kCompileContext);
  kind.user_metadata = members.text(kUserMetadata);
  kind.category = members.text(kCategory);
  AllocationEvent e;
  e.kind = snapshot.events.kind(kind);
  e.address = objects.address(members.of(kind.action == AllocationAction::kOom ? kDeviceFree : kAddr)).value_or(0);
  e.size = size_of(objects, members.of(kSize));
  e.time_us = objects.integer(members.of(kTimeUs)).value_or(AllocationEvent::kNoTime);
  if (e.time_us < 0 || e.time_us > kMaxTime_us) {
    out_of_range += e.time_us != AllocationEvent::kNoTime;
    e.time_us = AllocationEvent::kNoTime;
  }
  e.stack = stack_of(objects, members.of(kFramesKey));
  if (snapshot.events.size() >= kMaxEvents) {
    ++out_of_range;
    return {};
  }
  snapshot.events.push(e);
  return PickleValue::rows(kEvents, static_cast<uint32_t>(snapshot.events.size() - 1));
}

// PyTorch 2.0 gave a block what it held last as its history.
void SnapshotRows::add_history(const PickleObjects& objects, PickleValue history, bool sized, MemoryBlock& block) {
  const std::span<const PickleValue> entries = objects.items(history);
  if (entries.empty()) return;
  const PickleValue last = objects.resolved(entries.front());
  if (!sized) block.requested = size_of(objects, objects.member(last, kRealSize));
  if (block.stack == MemoryStacks::kNone) block.stack = stack_of(objects, objects.member(last, kFramesKey));
}

PickleValue SnapshotRows::block(const PickleObjects& objects, const Members& members) {
  MemoryBlock b;
  b.address = objects.address(members.of(kAddress)).value_or(0);
  b.size = size_of(objects, members.of(kSize));
  b.requested = members.has(kRequestedSize) ? size_of(objects, members.of(kRequestedSize)) : b.size;
  const StringId state = members.text(kState);
  if (state == StringId(kStateAllocated)) b.state = BlockState::kAllocated;
  if (state == StringId(kStatePending) || state == StringId(kStateAwaiting)) b.state = BlockState::kPendingFree;
  b.stack = stack_of(objects, members.of(kFramesKey));
  if (members.has(kHistory)) add_history(objects, members.of(kHistory), members.has(kRequestedSize), b);
  blocks_.push_back(b);
  return PickleValue::rows(kBlocks, static_cast<uint32_t>(blocks_.size() - 1));
}

PickleValue SnapshotRows::segment(const PickleObjects& objects, const Members& members) {
  MemorySegment s;
  const int64_t device = objects.integer(members.of(kDevice)).value_or(0);
  s.device = device >= 0 && device < static_cast<int64_t>(kMaxDevices) ? static_cast<int32_t>(device) : 0;
  s.address = objects.address(members.of(kAddress)).value_or(0);
  s.total = size_of(objects, members.of(kTotalSize));
  s.stream = objects.integer(members.of(kStream)).value_or(0);
  s.large = members.text(kSegmentType) != StringId(kSmall);
  s.expandable = objects.integer(members.of(kIsExpandable)).value_or(0) != 0;
  if (const PickleValue pool = members.of(kSegmentPoolId); pool.is_of(kPools)) s.pool = pool.row();
  s.stack = stack_of(objects, members.of(kFramesKey));
  s.first_block = static_cast<uint32_t>(snapshot.blocks.size());
  uint64_t next = s.address;
  int64_t allocated = 0, active = 0, requested = 0;
  for (const PickleValue v : objects.items(members.of(kBlocksKey))) {
    if (!v.is_of(kBlocks)) continue;
    for (uint32_t n = 0; n < v.count(); ++n) {
      MemoryBlock b = blocks_[v.row() + n];
      if (b.address == 0) b.address = next;  // blocks of old files have none of their own
      next = b.address + static_cast<uint64_t>(b.size);
      if (b.state == BlockState::kAllocated) allocated += b.size;
      if (b.state != BlockState::kInactive) active += b.size, requested += b.requested;
      snapshot.blocks.push_back(b);
    }
  }
  s.blocks = static_cast<uint32_t>(snapshot.blocks.size()) - s.first_block;
  s.allocated = members.has(kAllocatedSize) ? size_of(objects, members.of(kAllocatedSize)) : allocated;
  s.active = members.has(kActiveSize) ? size_of(objects, members.of(kActiveSize)) : active;
  s.requested = members.has(kRequestedSize) ? size_of(objects, members.of(kRequestedSize)) : requested;
  segments_.push_back(s);
  return PickleValue::rows(kSegments, static_cast<uint32_t>(segments_.size() - 1));
}

void SnapshotRows::count_unread(std::span<const PickleValue> items) {
  unread += std::ranges::count_if(items, [](PickleValue v) { return v.is(PickleKind::kDict); });
}

void SnapshotRows::count_unknown(std::string_view kind, StringId name) {
  const std::string_view text = snapshot.strings[name];
  // Frames of code that FX generated name its node in fx_node_op, fx_node_name and fx_node_target.
  if (text.starts_with("fx_") || std::ranges::find(kOtherKeys, text) != std::end(kOtherKeys)) return;
  std::string full(kind);
  full += text;
  if (const auto at = unknown.find(full); at != unknown.end()) ++at->second;
  else if (unknown.size() < kMaxUnknown) unknown.emplace(std::move(full), 1);
}

void SnapshotRows::count_unknown(std::span<const PickleValue> members) {
  for (size_t i = 0; i + 1 < members.size(); i += 2)
    if (members[i].is(PickleKind::kText) && members[i].index() >= kKeyCount)
      count_unknown("", StringId(members[i].index()));
}

void SnapshotRows::add_segments(const PickleObjects& objects, PickleValue list, PickleValue pinned) {
  count_unread(objects.items(list));
  for (const PickleValue v : objects.items(list))
    for (uint32_t n = 0; v.is_of(kSegments) && n < v.count(); ++n) snapshot.segments.push_back(segments_[v.row() + n]);
  for (const PickleValue v : objects.items(pinned))
    for (uint32_t n = 0; v.is_of(kSegments) && n < v.count(); ++n)
      snapshot.segments.emplace_back(segments_[v.row() + n]).device = kPinnedHost;
  std::stable_sort(snapshot.segments.begin(), snapshot.segments.end(), [](const auto& a, const auto& b) {
    return a.device != b.device ? a.device < b.device : a.address < b.address;
  });
}

// Runs of events of which each begins where the one before ends.
bool SnapshotRows::are_consecutive(std::span<const PickleValue> runs) {
  for (size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].is_of(kEvents) || (i > 0 && runs[i].row() != runs[i - 1].row() + runs[i - 1].count())) return false;
  return !runs.empty();
}

void SnapshotRows::add_trace(int32_t device, std::span<const PickleValue> runs) {
  count_unread(runs);
  AllocationEvents& events = snapshot.events;
  while (!runs.empty() && !runs.back().is_of(kEvents)) runs = runs.first(runs.size() - 1);   // where a file is cut
  size_t count = 0, first = events.size();
  const bool whole = are_consecutive(runs);
  if (whole) first = runs.front().row(), count = runs.back().row() + runs.back().count() - first;
  // Events that are there more than once, as in lists that a program repeated, are copied.
  for (size_t r = 0; r < runs.size() && !whole; ++r)
    for (uint32_t n = 0; runs[r].is_of(kEvents) && n < runs[r].count(); ++n, ++count) {
      if (events.size() >= kMaxEvents) {
        ++out_of_range;
        continue;
      }
      events.push_copy(runs[r].row() + n);
    }
  if (count > 0) snapshot.traces.push_back({device, first, count});
}

void SnapshotRows::add_traces(const PickleObjects& objects, PickleValue list) {
  const std::span<const PickleValue> devices = objects.items(list);
  for (size_t d = 0; d < std::min(devices.size(), kMaxDevices); ++d)
    add_trace(static_cast<int32_t>(d), objects.items(devices[d]));
}

// The host is one device: its events are a list, or the lists within one.
void SnapshotRows::add_pinned_trace(const PickleObjects& objects, PickleValue list) {
  std::vector<PickleValue> runs;
  for (const PickleValue v : objects.items(list)) {
    if (v.is_of(kEvents)) runs.push_back(v);
    else runs.insert(runs.end(), objects.items(v).begin(), objects.items(v).end());
  }
  add_trace(kPinnedHost, runs);
}

void SnapshotRows::add_settings(const PickleObjects& objects, PickleValue dict) {
  if (!dict.is(PickleKind::kDict)) return;
  AllocatorSettings& s = snapshot.settings;
  s.known = true;
  const auto member = [&](std::string_view name, PickleValue of) {
    const StringId key = snapshot.strings.find(name);
    return key.valid() ? objects.member(of, key.value) : PickleValue();
  };
  for (const std::string_view name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"})
    if (const PickleValue v = member(name, dict); v.is(PickleKind::kText) && s.text.empty())
      s.text = text_of(v.index());
  const int64_t split = objects.integer(member("max_split_size", dict)).value_or(-1);
  if (split > 0) s.max_split_bytes = split;
  s.expandable_segments = objects.integer(member("expandable_segments", dict)).value_or(0) != 0;
  const PickleValue divisions = member("roundup_power2_divisions", dict);
  for (size_t i = 0; i < s.roundup_divisions.size(); ++i)
    s.roundup_divisions[i] = std::clamp<int64_t>(
        objects.integer(member(std::to_string(uint64_t{1} << i), divisions)).value_or(0), 0, 1 << 20);
}

void SnapshotRows::add_times() {
  MemorySnapshot& s = snapshot;
  const auto add = [&](int64_t time) {
    if (time == AllocationEvent::kNoTime) return;
    s.first_us = s.first_us == AllocationEvent::kNoTime ? time : std::min(s.first_us, time);
    s.last_us = std::max(s.last_us, time);
  };
  for (const DeviceEvents& d : s.traces)
    for (size_t i = d.first; i < d.first + d.count; ++i) add(s.events.time_us(i));
  for (const MemoryAnnotation& a : s.annotations) add(a.time_us);
}

bool SnapshotRows::finish(const PickleObjects& objects, PickleValue root) {
  const auto member = [&](std::string_view name) {
    const StringId key = snapshot.strings.find(name);
    return key.valid() ? objects.member(root, key.value) : PickleValue();
  };
  const PickleValue segments = member("segments"), traces = member("device_traces");
  // The list of segments alone is what memory_snapshot() returns.
  const bool alone = objects.resolved(root).is(PickleKind::kSequence) && !segments_.empty();
  if (!alone && !segments.is(PickleKind::kSequence) && !traces.is(PickleKind::kSequence)) return false;
  if (!alone) count_unknown(objects.items(root));
  add_segments(objects, alone ? root : segments, member("host_segments"));
  add_traces(objects, traces);
  add_pinned_trace(objects, member("host_traces"));
  add_settings(objects, member("allocator_settings"));
  for (const PickleValue v : objects.items(member("external_annotations")))
    for (uint32_t n = 0; v.is_of(kAnnotations) && n < v.count(); ++n)
      snapshot.annotations.push_back(annotations_[v.row() + n]);
  add_times();
  return true;
}

}  // namespace profgpu
