#include "trace/smi_table.h"

#include <algorithm>

namespace profgpu {
namespace {

constexpr std::string_view kSmiDate = "Date", kSmiTime = "Time", kSmiDevice = "gpu";

// The last field: what one of its units is of ours.
struct SmiName {
  std::string_view theirs, ours;
  double scale;
};
constexpr double kMiB = 1 << 20;
constexpr SmiName kSmiNames[] = {
    {"pwr", "power_w", 1},
    {"temp", "temperature_c", 1},
    {"gtemp", "temperature_c", 1},
    {"mtemp", "memory_temperature_c", 1},
    {"sm", "utilization_pct", 1},
    {"mem", "memory_utilization_pct", 1},
    {"enc", "encoder_utilization_pct", 1},
    {"dec", "decoder_utilization_pct", 1},
    {"jpg", "jpeg_utilization_pct", 1},
    {"ofa", "ofa_utilization_pct", 1},
    {"mclk", "memory_clock_mhz", 1},
    {"pclk", "sm_clock_mhz", 1},
    {"fb", "memory_used_bytes", kMiB},
    {"bar1", "bar1_used_bytes", kMiB},
    {"sbecc", "ecc_corrected_errors", 1},
    {"dbecc", "ecc_uncorrected_errors", 1},
    {"pci", "pcie_replays", 1},
    {"rxpci", "pcie_rx_bytes_per_second", 1e6},
    {"txpci", "pcie_tx_bytes_per_second", 1e6},
};

SampleColumn column_named(std::string_view theirs) {
  if (theirs == kSmiDevice) return sample_column("device");
  for (const SmiName& n : kSmiNames) {
    if (theirs != n.theirs) continue;
    SampleColumn column = sample_column(n.ours);
    column.scale = n.scale;
    return column;
  }
  return {};
}

void split_smi_row(std::string_view line, std::vector<std::string_view>& fields) {
  constexpr std::string_view kBetween = " \t,";
  fields.clear();
  for (size_t from = line.find_first_not_of(kBetween); from < line.size();) {
    const size_t end = std::min(line.find_first_of(kBetween, from), line.size());
    fields.push_back(line.substr(from, end - from));
    from = line.find_first_not_of(kBetween, end);
  }
}

}  // namespace

bool SmiTable::read_header(std::string_view line) {
  line.remove_prefix(1);
  split_smi_row(line, fields_);
  // The day is first, the time of day second.
  const bool timed = fields_.size() > 2 && fields_[0] == kSmiDate && fields_[1] == kSmiTime;
  std::vector<SampleColumn> columns;
  std::vector<std::string> unknown;
  bool metric = false;
  if (timed) columns.push_back(sample_column("timestamp"));
  for (size_t i = timed ? 2 : 0; i < fields_.size(); ++i) {
    columns.push_back(column_named(fields_[i]));
    metric |= columns.back().kind == SampleColumn::Kind::kMetric;
    if (columns.back().kind == SampleColumn::Kind::kUnknown) unknown.emplace_back(fields_[i]);
  }
  const auto has = [&](std::string_view field) { return std::find(fields_.begin(), fields_.end(), field) != fields_.end(); };
  if (!has(kSmiDevice)) return false;
  if (of_processes_ = has("pid"); of_processes_) {
    columns_.clear();
    return true;
  }
  if (!metric) return false;
  columns_ = std::move(columns);
  unknown_ = std::move(unknown);
  timed_ = timed;
  return true;
}

const std::vector<std::string_view>& SmiTable::read_row(std::string_view line) {
  split_smi_row(line, fields_);
  if (timed_ && fields_.size() > 1 && fields_[0].size() == 8) {
    const std::string_view day = fields_[0];
    time_.assign(day.substr(0, 4)).append("-").append(day.substr(4, 2)).append("-").append(day.substr(6));
    time_.append(" ").append(fields_[1]);
    fields_.erase(fields_.begin());
    fields_[0] = time_;
  }
  for (std::string_view& f : fields_)
    if (f == "-") f = {};
  if (fields_.size() != columns_.size()) fields_.clear();
  return fields_;
}

}  // namespace profgpu
