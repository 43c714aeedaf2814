// The dicts of a PyTorch memory snapshot as rows of a MemorySnapshot, told apart by their keys: every PyTorch version
// has the ones that are asked for here, and may add others.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/pickle.h"
#include "base/secrets.h"
#include "trace/memory_snapshot.h"

namespace profgpu {

/// A sink of PickleReader.
class SnapshotRows {
 public:
  SnapshotRows();
  uint32_t text(std::string_view text) {
    return snapshot.strings.intern(may_hold_secret(text) ? masked_secrets(text) : text).value;
  }
  std::string_view text_of(uint32_t id) { return snapshot.strings[StringId(id)]; }
  PickleValue dict(const PickleObjects& objects, PickleValue before, std::span<const PickleValue> members);
  PickleValue sequence(const PickleObjects& objects, PickleValue before, std::span<const PickleValue> items);

  /// What the root of the pickle holds; false: it is no snapshot.
  bool finish(const PickleObjects& objects, PickleValue root);

  MemorySnapshot snapshot;
  int64_t unread = 0;        ///< segments and events that lack what makes them one
  int64_t out_of_range = 0;  ///< rows with sizes or times that no device has
  /// What later versions of PyTorch added: keys of rows and of the snapshot, and actions, by name; how often.
  std::map<std::string, int64_t> unknown;

 private:
  enum Table : uint32_t { kFrames, kStacks, kBlocks, kSegments, kEvents, kAnnotations, kPools };
  /// Values of the members that are asked for, by their keys' places in `kKeys`.
  struct Members;

  std::optional<MemoryFrame> original_frame(std::string_view trace);
  PickleValue event(const PickleObjects& objects, const Members& members);
  PickleValue block(const PickleObjects& objects, const Members& members);
  PickleValue segment(const PickleObjects& objects, const Members& members);
  int64_t size_of(const PickleObjects& objects, PickleValue value);
  uint32_t stack_of(const PickleObjects& objects, PickleValue frames);
  void add_history(const PickleObjects& objects, PickleValue history, bool sized, MemoryBlock& block);
  void add_segments(const PickleObjects& objects, PickleValue list, PickleValue pinned);
  void count_unread(std::span<const PickleValue> items);
  void count_unknown(std::span<const PickleValue> members);
  void count_unknown(std::string_view kind, StringId name);
  static bool are_consecutive(std::span<const PickleValue> runs);
  void add_trace(int32_t device, std::span<const PickleValue> runs);
  void add_traces(const PickleObjects& objects, PickleValue list);
  void add_pinned_trace(const PickleObjects& objects, PickleValue list);
  void add_settings(const PickleObjects& objects, PickleValue dict);
  void add_times();

  std::vector<uint32_t> frames_;         ///< of the stack that is made
  std::vector<MemorySegment> segments_;  ///< as they come
  std::vector<MemoryBlock> blocks_;
  std::vector<MemoryAnnotation> annotations_;
};

}  // namespace profgpu
