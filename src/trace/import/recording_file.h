// One file of a recording in memory: small tables decoded, large ones located.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "record/wire/chunk_reader.h"
#include "record/wire/rows.h"

namespace profgpu {

/// Maps CUPTI's timestamps to the host's clock: piecewise linear between the instants at which both clocks were read,
/// and split where the clocks diverge by more than they can drift (another profiler set CUPTI's clock, or the system's
/// clock was stepped).
class RecordingClock {
 public:
  /// Times further from 0 are damage; sums and differences of two times fit 64 bits.
  static constexpr int64_t kLatest = INT64_MAX / 4;

  explicit RecordingClock(const std::vector<wire::ClockSync>& syncs);

  /// `syncs_before`: readings of both clocks before the row in the file; decides on which side of a split the row is if
  /// its time alone does not.
  [[nodiscard]] int64_t host_ns(int64_t device_ns, size_t syncs_before) const;
  [[nodiscard]] bool known() const { return !points_.empty(); }
  /// No reading has CUPTI's clock: assumed to be Unix time, CUPTI's default.
  [[nodiscard]] bool assumed_unix() const { return assumed_unix_; }
  [[nodiscard]] size_t splits() const { return segments_.empty() ? 0 : segments_.size() - 1; }
  /// Unix time minus host time, at the first reading.
  [[nodiscard]] int64_t unix_less_host_ns() const { return unix_less_host_ns_; }
  [[nodiscard]] int64_t first_host_ns() const { return first_host_ns_; }

 private:
  struct Point {
    int64_t device_ns, host_ns;
    size_t sync;            // index of the reading
  };
  struct Segment {
    size_t begin, end;      // points
  };
  [[nodiscard]] int64_t on(const Segment& segment, int64_t device_ns) const;

  std::vector<Point> points_;
  std::vector<Segment> segments_;
  bool assumed_unix_ = false;
  int64_t unix_less_host_ns_ = 0, first_host_ns_ = 0;
};

/// Rows that others refer to by number; recorders count from 1.
template <class Row>
class ById {
 public:
  /// Ignores a number beyond `most`, which is damage.
  void put(uint32_t id, const Row& row, uint32_t most) {
    if (id == 0 || id > most) return;
    if (id >= rows_.size()) rows_.resize(size_t{id} + 1);
    rows_[id] = row;
  }
  /// An empty row for number 0 and unused numbers.
  [[nodiscard]] const Row& operator[](uint32_t id) const {
    static const Row none{};
    return id < rows_.size() ? rows_[id] : none;
  }
  [[nodiscard]] size_t size() const { return rows_.size(); }
  [[nodiscard]] auto begin() const { return rows_.begin(); }
  [[nodiscard]] auto end() const { return rows_.end(); }

 private:
  std::vector<Row> rows_;
};

struct RecordingFile {
  RecordingFile() = default;
  RecordingFile(RecordingFile&&) = default;   // views of `bytes` stay valid: see open_recording()
  RecordingFile& operator=(RecordingFile&&) = default;

  /// A chunk of a large table; decoded later, in parallel.
  struct Block {
    wire::ChunkView chunk;
    size_t syncs_before = 0;
  };

  std::string path;
  std::string bytes;
  int64_t file_bytes = 0;         ///< on disk, where it may be compressed
  std::string cut_off;            ///< why the bytes end early, empty if they do not
  std::vector<Block> blocks;      ///< device activity, calls, waits, overheads, allocations
  ById<std::string_view> strings; ///< valid UTF-8
  std::deque<std::string> mended; ///< of those, the ones that were not: views of them stay valid as it grows or moves
  ById<wire::ThreadRow> threads;
  ById<wire::QueueRow> queues;
  ById<wire::LaunchShape> shapes;
  std::vector<wire::DeviceRow> devices;
  std::vector<wire::ClockSync> syncs;
  std::vector<wire::RangeEvent> range_events;
  std::vector<wire::CollectiveRow> collectives;
  ById<wire::PayloadSchema> schemas;
  std::vector<wire::PayloadField> schema_fields;
  std::vector<wire::PayloadRef> payloads;  ///< texts point into `bytes`
  std::vector<wire::ThreadSample> thread_samples;
  std::vector<wire::ThreadWait> thread_waits;
  std::vector<wire::Drop> drops;
  std::vector<wire::Window> windows;
  std::vector<wire::Note> notes;
  std::map<std::string, std::string> properties;

  bool ended = false;             ///< the process ended normally
  int64_t rows = 0;               ///< of the large and the host's tables
  int64_t device_rows = 0;        ///< kernels, copies, sets, graph launches
  int64_t bad_chunks = 0, unknown_chunks = 0;
  uint64_t damaged_places = 0, damaged_bytes = 0, torn_bytes = 0;

  [[nodiscard]] std::string property(const std::string& key) const;
  /// -1 if it is not a non-negative whole number.
  [[nodiscard]] int64_t number(const std::string& key) const;
  /// Written by `profgpu run` for all processes of its host, rather than by a recorded process.
  [[nodiscard]] bool of_host() const;
  [[nodiscard]] std::string pid() const;
};

using RecordingFiles = std::vector<std::shared_ptr<const RecordingFile>>;

/// Whether a file with these first bytes is a recording, even a damaged one.
bool is_recording(std::string_view head);

Result<RecordingFile> open_recording(const std::string& path);
/// The same of bytes in memory; `path` is for messages.
Result<RecordingFile> recording_of(std::string bytes, const std::string& path);

}  // namespace profgpu
