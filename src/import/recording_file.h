// One file of a recording in memory: its small tables decoded, its large ones found.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/chunk_reader.h"
#include "wire/rows.h"

namespace profgpu {

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

/// Whether a file with these first bytes is a recording, even one that was hurt on the way.
bool is_recording(std::string_view head);

Result<RecordingFile> open_recording(const std::string& path);
/// The same of bytes in memory; `path` is for messages.
Result<RecordingFile> recording_of(std::string bytes, const std::string& path);

}  // namespace profgpu
