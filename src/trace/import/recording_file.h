// One file of a recording in memory: its small tables decoded, its large ones found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "record/wire/chunk_reader.h"
#include "record/wire/rows.h"

namespace profgpu {

// The clock that CUPTI stamps with, seen from the host's clock.

/// Piecewise linear between the instants at which both clocks were read. Where the clocks part by more than they can
/// drift (another profiler set CUPTI's clock, the system's was stepped) the map is split there.
class RecordingClock {
 public:
  /// Times further from 0 than this are damage; sums and differences of two of them fit 64 bits.
  static constexpr int64_t kLatest = INT64_MAX / 4;

  explicit RecordingClock(const std::vector<wire::ClockSync>& syncs);

  /// `syncs_before`: readings of both clocks that stand before the row in the file; tells on which side of a split it
  /// is where its time alone does not.
  [[nodiscard]] int64_t host_ns(int64_t device_ns, size_t syncs_before) const;
  [[nodiscard]] bool known() const { return !points_.empty(); }
  /// No reading has CUPTI's clock: it was taken for Unix time, which is what CUPTI begins with.
  [[nodiscard]] bool assumed_unix() const { return assumed_unix_; }
  [[nodiscard]] size_t splits() const { return segments_.empty() ? 0 : segments_.size() - 1; }
  /// Unix time less host time, as the first reading has it.
  [[nodiscard]] int64_t unix_less_host_ns() const { return unix_less_host_ns_; }
  [[nodiscard]] int64_t first_host_ns() const { return first_host_ns_; }

 private:
  struct Point {
    int64_t device_ns, host_ns;
    size_t sync;            // its place among the readings
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

/// Rows that others name by a number, which recorders give out from 1 upward.
template <class Row>
class ById {
 public:
  /// A number beyond `most` is damage; the row is left out.
  void put(uint32_t id, const Row& row, size_t most) {
    if (id == 0 || id > most) return;
    if (id >= rows_.size()) rows_.resize(size_t{id} + 1);
    rows_[id] = row;
  }
  /// What number 0 and numbers that were never given stand for is an empty row.
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

  /// A chunk of a kind that has many rows; decoded later, several at once.
  struct Block {
    wire::ChunkView chunk;
    size_t syncs_before = 0;
  };

  std::string path;
  std::string bytes;
  int64_t file_bytes = 0;         ///< on disk, where it may be compressed
  std::string cut_off;            ///< why the bytes end early, empty if they do not
  std::vector<Block> blocks;      ///< device activity, calls, waits, overheads, allocations
  ById<std::string_view> strings;
  ById<wire::ThreadRow> threads;
  ById<wire::QueueRow> queues;
  ById<wire::LaunchShape> shapes;
  std::vector<wire::DeviceRow> devices;
  std::vector<wire::ClockSync> syncs;
  std::vector<wire::RangeEvent> range_events;
  std::vector<wire::CollectiveRow> collectives;
  ById<wire::PayloadSchema> schemas;
  std::vector<wire::PayloadField> schema_fields;
  std::vector<wire::PayloadRef> payloads;  ///< texts lie in `bytes`
  std::vector<wire::ThreadSample> thread_samples;
  std::vector<wire::ThreadWait> thread_waits;
  std::vector<wire::Drop> drops;
  std::vector<wire::Window> windows;
  std::vector<wire::Note> notes;
  std::map<std::string, std::string> properties;

  bool ended = false;             ///< the process ended in order
  int64_t rows = 0;               ///< of the large and the host's tables
  int64_t device_rows = 0;        ///< kernels, copies, sets, graph launches
  int64_t bad_chunks = 0, unknown_chunks = 0;
  uint64_t damaged_places = 0, damaged_bytes = 0, torn_bytes = 0;

  [[nodiscard]] std::string property(const std::string& key) const;
  /// A whole number that is not negative, or -1.
  [[nodiscard]] int64_t number(const std::string& key) const;
  /// Written by `profgpu run` for all processes of its host, not by a recorded process.
  [[nodiscard]] bool of_host() const;
  [[nodiscard]] std::string pid() const;
};

using RecordingFiles = std::vector<std::shared_ptr<const RecordingFile>>;

/// Whether a file with these first bytes is a recording, even one that was hurt on the way.
bool is_recording(std::string_view head);

Result<RecordingFile> open_recording(const std::string& path);
/// The same of bytes in memory; `path` is for messages.
Result<RecordingFile> recording_of(std::string bytes, const std::string& path);

}  // namespace profgpu
