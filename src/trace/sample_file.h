// Files of samples: JSON lines or CSV, one row a device a tick: time_ns (Unix), device, then metrics by our names. What
// a driver keeps with times of its own may have rows of those times beside them.
//
// JSON lines: absent metrics are left out. A device's first row also carries its name, uuid, pci_bus_id, vendor,
// driver_version, host and constants; rows at which processes were asked carry processes[], in which a recording of
// `profgpu top` also says their user, container_runtime, container, pod, slurm_job, slurm_step, rank and world_size;
// marks are rows {time_ns, mark}, and alerts of `profgpu monitor` are rows with an object `alert`, which readers of
// samples pass over. `device` is an index, "0:7" for a MIG instance, "AMD 0" where two vendors have a device 0. CSV:
// one header row; an absent metric is an empty field; columns name, uuid and host in every row; processes and marks are
// left out. The reader also takes nvidia-smi's field names and units, with its times, and ISO 8601 or epoch seconds in
// a column `timestamp`. Rows are appended whole: one write() each, so a killed writer leaves at most its last line
// torn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/sample.h"

namespace profgpu {

enum class SampleFormat { kJsonLines, kCsv };

/// By the file's ending: .csv, .jsonl, .ndjson or .json; an error for any other.
Result<SampleFormat> sample_format_of(const std::string& path);


/// Turns readings into rows; where a reading holds several samples of one metric, as SampleRow says.
class SampleWriter {
 public:
  /// `columns`: the metrics to write; empty: all that a reading has (CSV: all that there are). `host`: this machine's
  /// name, for devices that do not state theirs; empty: left out.
  SampleWriter(SampleFormat format, std::vector<DeviceInfo> devices, std::vector<Metric> columns,
               std::string_view host = "");
  /// The header row of a CSV file, empty for JSON lines.
  [[nodiscard]] std::string header() const;
  /// The row with its line feed, in a buffer that the next call reuses.
  std::string_view row(const Reading& reading);
  /// The same without a mean: what may_have_own_rows() and has times of its own gets rows of those, before the
  /// reading's.
  std::string_view rows(const Reading& reading);
  std::string_view mark(int64_t time_ns, std::string_view name);

 private:
  SampleFormat format_;
  std::vector<DeviceInfo> devices_;
  std::vector<Metric> columns_;
  std::vector<bool> introduced_;
  void append_row(const Reading& reading);

  SampleRow row_;
  Reading part_;
  std::string line_;
};

/// What a reader skipped, for people.
struct SampleFileIssues {
  int64_t damaged_rows = 0;
  int64_t first_damaged_line = 0;
  std::string reported;            ///< what nvidia-smi itself says in place of a row; empty: nothing
  bool torn = false;                      ///< the last line is not whole, or the compressed data end early
  bool one_device = false;                ///< rows do not say of which device they are: taken for one
  std::vector<std::string> unknown;       ///< columns that are no metric of ours
};

/// Reads a whole file, plain or compressed as base/text_source reads it. Rows that cannot be read are counted, not
/// fatal; an error only where nothing could be read. Rows may come in any order of time and device.
Result<SampleLog> read_sample_file(const std::string& path, SampleFileIssues& issues);
/// Several logs as one, as pieces of a log that was rotated are, or logs of several hosts: devices of a host with the
/// same UUID, or without one the same label, are the same. Of two values of one time the later log's stands.
SampleLog joined_samples(std::vector<SampleLog> logs);
/// Whether text that begins with `head` is such a file.
bool looks_like_samples(std::string_view head);

}  // namespace profgpu
