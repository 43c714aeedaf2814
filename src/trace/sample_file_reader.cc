// Reading files of samples: lines, each a JSON object or a row of CSV, or of nvidia-smi dmon's table, under the header
// that came last.
//
// Budget: a million CSV rows of fifteen columns in two seconds on one core.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/clock.h"
#include "base/csv.h"
#include "base/decimal.h"
#include "base/json_reader.h"
#include "base/secrets.h"
#include "base/text.h"
#include "base/text_source.h"
#include "trace/sample_file.h"
#include "trace/sample_file_column.h"
#include "trace/sample_log_builder.h"
#include "trace/smi_table.h"

namespace profgpu {
namespace {

constexpr size_t kWindowBytes = 1 << 20;
constexpr size_t kLongestLine = 16 << 20;
constexpr int64_t kMaxStrangeLines = 1000;   // before the first good one: then it is no file of samples
constexpr int64_t kLatest_ns = 9'200'000'000'000'000'000;   // the year 2261
constexpr int64_t kHighestIndex = 65535;
constexpr size_t kMaxUnknown = 20, kMaxColumns = 4096, kMaxOrigins = 4096;
using Kind = SampleColumn::Kind;

/// One line to one row.
class RowReader {
 public:
  enum class Outcome { kRow, kHeader, kAlert, kDamaged };
  explicit RowReader(SampleFileIssues& issues) : issues_(issues) {}

  /// `line` has no line feed and is followed by kJsonPadding readable bytes. After kRow, row() has what it says;
  /// partly() tells whether some of it could not be read.
  Outcome read(std::string_view line);
  [[nodiscard]] const SampleFileRow& row() const { return row_; }
  [[nodiscard]] bool partly() const { return partly_; }
  /// The header that was seen last has no column for the time.
  [[nodiscard]] bool timeless() const { return timeless_; }
  [[nodiscard]] bool of_processes() const { return table_.of_processes(); }

 private:
  using Key = std::pair<std::string, SampleColumn>;
  Outcome read_json(std::string_view line);
  Outcome read_csv(std::string_view line);
  Outcome read_table(std::string_view line);
  Outcome take_fields(const std::vector<SampleColumn>& columns, const std::vector<std::string_view>& fields);
  bool read_header();
  const SampleColumn& column_of(std::string_view key);
  bool read_value(JsonReader& reader, const SampleColumn& column);
  bool read_processes(JsonReader& reader);
  bool read_process(JsonReader& reader, ProcessSample& process);
  [[nodiscard]] std::shared_ptr<const ProcessOrigin> shared(int64_t pid, ProcessOrigin origin);
  void set(const SampleColumn& column, std::string_view text);
  void note_unknown(std::string_view name);

  SampleFileIssues& issues_;
  SampleFileRow row_;
  bool partly_ = false, timeless_ = false;
  bool refused_ = false;                   // the row says no device that there can be
  bool alert_ = false;                     // the row says what `profgpu monitor` made of others
  TimestampReader timestamps_;
  std::vector<SampleColumn> header_;
  CsvFields csv_;
  SmiTable table_;
  std::vector<Key> keys_;                  // of JSON, in the order in which they came first
  size_t next_key_ = 0;                    // rows mostly have the same keys in the same order
  std::unordered_map<std::string, size_t> key_index_;
  Key other_key_;
  std::unordered_map<int64_t, std::shared_ptr<const ProcessOrigin>> origins_;   // by pid, as last seen
};

// A number, and not that of a device.
bool is_no_index(std::string_view text) {
  if (!all_digits(text.starts_with('-') ? text.substr(1) : text)) return false;
  const auto index = whole_number(text);
  return !index || *index < 0 || *index > kHighestIndex;
}

void RowReader::note_unknown(std::string_view name) {
  auto& all = issues_.unknown;
  if (all.size() < kMaxUnknown && std::find(all.begin(), all.end(), name) == all.end())
    replace_invalid_utf8(all.emplace_back(name.substr(0, 60)));
}

void RowReader::set(const SampleColumn& column, std::string_view text) {
  const auto text_or_nothing = [&](std::string& to) {
    if (text.empty() || text.front() == '[' || text == "N/A" || text == "null") return;
    to = text;
    replace_invalid_utf8(to);
  };
  switch (column.kind) {
    case Kind::kUnixNs:
      if (const auto time = whole_number(text); time && *time >= 0 && *time <= kLatest_ns) row_.time_ns = time;
      else partly_ = true;
      return;
    case Kind::kTime:   // beside time_ns it says the same, less exactly
      if (row_.time_ns) return;
      if (const auto time = timestamps_.read(text)) row_.time_ns = time;
      else partly_ = true;
      return;
    case Kind::kDevice:
      refused_ |= is_no_index(text);
      return text_or_nothing(row_.device);
    case Kind::kDeviceText: return text_or_nothing(row_.info.*column.text);
    case Kind::kMark: return text_or_nothing(row_.mark);
    case Kind::kNumaNode:
      if (const auto node = whole_number(text); node && *node >= 0 && *node < 65536)
        row_.info.numa_node = static_cast<int32_t>(*node);
      return;
    case Kind::kMetric: {
      const SampleCell cell = sample_cell(text, column);
      if (cell.number) row_.values.emplace_back(column.metric->metric, *cell.number);
      partly_ |= cell.damaged;
      return;
    }
    case Kind::kProcesses:
    case Kind::kAlert:
    case Kind::kUnknown: return;
  }
}

// Whether the fields are a header; then it is the one that counts.
bool RowReader::read_header() {
  if (csv_.fields().size() > kMaxColumns) return false;
  std::vector<SampleColumn> columns;
  bool metric = false, time = false;
  for (const std::string_view f : csv_.fields()) {
    columns.push_back(sample_column(f));
    metric |= columns.back().kind == Kind::kMetric;
    time |= columns.back().kind == Kind::kTime || columns.back().kind == Kind::kUnixNs;
  }
  if (!metric) return false;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i].kind == Kind::kUnknown) note_unknown(csv_.fields()[i]);
  timeless_ = !time;
  header_ = std::move(columns);
  return true;
}

RowReader::Outcome RowReader::read(std::string_view line) {
  row_.clear();
  partly_ = alert_ = refused_ = false;
  if (line.front() == '{') return read_json(line);
  return line.front() == '#' || !table_.columns().empty() ? read_table(line) : read_csv(line);
}

// kDamaged: without a time there is no row.
RowReader::Outcome RowReader::take_fields(const std::vector<SampleColumn>& columns,
                                          const std::vector<std::string_view>& fields) {
  if (fields.size() != columns.size()) return Outcome::kDamaged;
  for (size_t i = 0; i < fields.size(); ++i) set(columns[i], fields[i]);
  return row_.time_ns && !refused_ ? Outcome::kRow : Outcome::kDamaged;
}

RowReader::Outcome RowReader::read_csv(std::string_view line) {
  if (!csv_.split(line)) return Outcome::kDamaged;
  if (header_.empty()) return read_header() ? Outcome::kHeader : Outcome::kDamaged;
  const Outcome outcome = take_fields(header_, csv_.fields());
  if (row_.time_ns) return outcome;
  // A file that was appended to begins anew.
  return read_header() ? Outcome::kHeader : Outcome::kDamaged;
}

RowReader::Outcome RowReader::read_table(std::string_view line) {
  if (line.front() != '#') return take_fields(table_.columns(), table_.read_row(line));
  if (!table_.read_header(line)) return table_.columns().empty() ? Outcome::kDamaged : Outcome::kHeader;   // its units
  if (table_.of_processes()) return Outcome::kHeader;   // its rows are none of devices
  for (const std::string& name : table_.unknown()) note_unknown(name);
  timeless_ = !table_.timed();
  return Outcome::kHeader;
}

const SampleColumn& RowReader::column_of(std::string_view key) {
  if (next_key_ < keys_.size() && keys_[next_key_].first == key) return keys_[next_key_++].second;
  std::string name(key);
  if (const auto it = key_index_.find(name); it != key_index_.end()) {
    next_key_ = it->second + 1;
    return keys_[it->second].second;
  }
  const SampleColumn column = sample_column(key);
  if (column.kind == Kind::kUnknown) note_unknown(key);
  if (keys_.size() >= kMaxColumns) return (other_key_ = {"", column}).second;
  key_index_.emplace(name, keys_.size());
  keys_.emplace_back(std::move(name), column);
  next_key_ = keys_.size();
  return keys_.back().second;
}

// Every row repeats them.
std::shared_ptr<const ProcessOrigin> RowReader::shared(int64_t pid, ProcessOrigin origin) {
  if (origin == ProcessOrigin()) return nullptr;
  if (origins_.size() > kMaxOrigins) origins_.clear();
  auto& known = origins_[pid];
  if (!known || *known != origin) known = std::make_shared<const ProcessOrigin>(std::move(origin));
  return known;
}

bool RowReader::read_process(JsonReader& reader, ProcessSample& p) {
  ProcessOrigin origin;
  const bool whole = read_object(reader, [&](std::string_view key) {
    std::string_view raw;
    if (!reader.raw_value(raw)) return false;
    const bool text = raw.front() == '"';
    if (text) raw = raw.substr(1, raw.size() - 2);
    const auto number = real_number(raw);
    if (key == "pid" && number && std::abs(*number) < 1e15) p.pid = static_cast<int64_t>(*number);
    if (key == "type" && text && raw.size() == 1) p.type = raw.front();
    int64_t replaced = 0;
    if (key == "name" && text) p.name = masked_secrets(unescaped({raw, true, true}, replaced));
    if (key == "memory_bytes" && number && *number >= 0 && *number < 1e18)
      p.memory_bytes = static_cast<int64_t>(*number);
    for (const auto& [name, share] : kProcessShares)
      if (key == name) p.*share = number;
    for (const auto& [name, of_origin] : kOriginNumbers)
      if (key == name) origin.*of_origin = whole_number(raw);
    for (const auto& [name, of_origin] : kOriginTexts)
      if (key == name && text) origin.*of_origin = unescaped({raw, true, true}, replaced);
    return true;
  });
  p.origin = shared(p.pid, std::move(origin));
  return whole;
}

bool RowReader::read_processes(JsonReader& reader) {
  row_.has_processes = true;
  return read_array(reader, [&] { return read_process(reader, row_.processes.emplace_back()); });
}

bool RowReader::read_value(JsonReader& reader, const SampleColumn& column) {
  const char next = reader.peek();
  if (next == '"') {
    JsonString token;
    if (!reader.string(token)) return false;
    if (column.kind == Kind::kUnknown) return true;
    int64_t replaced = 0;
    const bool plain = !token.escaped && !token.non_ascii;
    set(column, plain ? token.raw : std::string_view(unescaped(token, replaced)));
    return true;
  }
  if (next == '[' && column.kind == Kind::kProcesses) return read_processes(reader);
  if (next == '[' || next == '{') {
    alert_ |= column.kind == Kind::kAlert;
    partly_ |= column.kind == Kind::kMetric;
    return reader.skip_value();
  }
  std::string_view token;
  if (!reader.scalar(token)) return false;
  set(column, token);
  return true;
}

RowReader::Outcome RowReader::read_json(std::string_view line) {
  next_key_ = 0;
  JsonReader reader(line.data(), line.data() + line.size());
  const bool whole = read_object(reader, [&](std::string_view key) {
    const SampleColumn column = column_of(key);
    return read_value(reader, column);
  });
  if (!whole || reader.peek() != 0 || !row_.time_ns || refused_) return Outcome::kDamaged;
  if (alert_) return Outcome::kAlert;
  // An object that only has a time is some other tool's.
  const bool ours = !row_.mark.empty() || !row_.device.empty() || !row_.values.empty() || row_.has_processes;
  return ours ? Outcome::kRow : Outcome::kDamaged;
}

/// The lines of a file to a log.
class FileReader {
 public:
  FileReader(const std::string& path, SampleFileIssues& issues) : path_(path), issues_(issues), rows_(issues) {}
  Result<SampleLog> read();

 private:
  bool take_lines(bool all);
  void take_line(std::string_view line, bool whole);
  Error nothing() const;

  const std::string& path_;
  SampleFileIssues& issues_;
  RowReader rows_;
  SampleLogBuilder builder_;
  std::string buffer_;            // the text from the start of a line, and padding
  size_t filled_ = 0;
  int64_t lines_ = 0, bytes_ = 0;
  bool header_ = false, skipping_ = false;
};

// What nvidia-smi writes among its rows when a device fails.
bool is_report(std::string_view line) {
  return line.starts_with("Unable to determine the device handle") || line.starts_with("Failed to initialize NVML") ||
         line.find("GPU is lost") != line.npos;
}

void FileReader::take_line(std::string_view line, bool whole) {
  if (lines_++ == 0 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  line = without_blanks(line);
  if (line.empty()) return;
  // Half a number is a number: in CSV only the line feed says that the last field is whole.
  const bool cut = !whole && line.front() != '{';
  const auto outcome = rows_.read(line);
  header_ |= outcome == RowReader::Outcome::kHeader;
  if (outcome == RowReader::Outcome::kAlert) return;
  const bool taken = outcome == RowReader::Outcome::kRow && !cut && builder_.add(rows_.row());
  if (!whole && !taken) {
    issues_.torn = true;
  } else if (outcome != RowReader::Outcome::kHeader && (!taken || rows_.partly())) {
    if (issues_.damaged_rows++ == 0) issues_.first_damaged_line = lines_;
    if (!taken && issues_.reported.empty() && is_report(line)) {
      issues_.reported = line.substr(0, 200);
      replace_invalid_utf8(issues_.reported);
    }
  }
}

// False: this is no file of samples.
bool FileReader::take_lines(bool all) {
  size_t from = 0;
  while (from < filled_) {
    const auto* feed = static_cast<const char*>(std::memchr(buffer_.data() + from, '\n', filled_ - from));
    if (feed == nullptr && !all) break;
    const size_t end = feed == nullptr ? filled_ : static_cast<size_t>(feed - buffer_.data());
    const std::string_view line(buffer_.data() + from, end - from);
    from = end + (feed != nullptr);
    if (skipping_) ++lines_;
    else take_line(line, feed != nullptr);
    skipping_ = false;
    if (builder_.empty() && issues_.damaged_rows > kMaxStrangeLines) return false;
  }
  from = std::min(from, filled_);
  std::memmove(buffer_.data(), buffer_.data() + from, filled_ - from);
  filled_ -= from;
  if (filled_ < kLongestLine) return true;
  filled_ = 0;
  if (!skipping_ && issues_.damaged_rows++ == 0) issues_.first_damaged_line = lines_ + 1;
  skipping_ = true;
  return !builder_.empty();
}

Error FileReader::nothing() const {
  const std::string hint = "`profgpu log -o FILE` writes such files";
  if (bytes_ == 0) return {path_ + ": is empty", hint};
  if (rows_.of_processes())
    return {path_ + ": a table of processes (nvidia-smi pmon), which does not tell how busy a device is",
            "log devices: nvidia-smi dmon -s pucmt -o DT, or profgpu log, which has the processes as well"};
  if (header_ && rows_.timeless())
    return {path_ + ": its header row has no column time_ns or timestamp",
            "log with one: profgpu log, nvidia-smi --query-gpu=timestamp,index,utilization.gpu,..., or nvidia-smi dmon "
            "-o DT"};
  if (header_ && issues_.damaged_rows == 0)
    return {path_ + ": a header row and no rows of samples" + (issues_.torn ? " but a torn one" : ""), hint};
  std::string why = issues_.torn ? "its only row is not whole" : "no row in it";
  if (issues_.damaged_rows > 0)
    why = "damaged rows: " + std::to_string(issues_.damaged_rows) + ", the first in line " +
          std::to_string(issues_.first_damaged_line);
  return {path_ + ": no samples could be read (" + why + ")", hint};
}

Result<SampleLog> FileReader::read() {
  auto source = open_text(path_);
  if (!source) return source.error();
  for (bool open = true; open;) {
    buffer_.resize(filled_ + kWindowBytes + kJsonPadding);
    const size_t got = (*source)->read(buffer_.data() + filled_, kWindowBytes);
    filled_ += got;
    bytes_ += static_cast<int64_t>(got);
    open = (*source)->end() == TextSource::End::kOpen;
    if ((*source)->end() == TextSource::End::kUnreadable) return Error{path_ + ": " + (*source)->problem()};
    if (!take_lines(!open)) return nothing();
  }
  if ((*source)->end() != TextSource::End::kComplete) issues_.torn = true;
  if (builder_.empty()) return nothing();
  issues_.one_device = builder_.unnamed_device();
  return builder_.finish();
}

}  // namespace

Result<SampleLog> read_sample_file(const std::string& path, SampleFileIssues& issues) {
  issues = {};
  return FileReader(path, issues).read();
}

bool looks_like_samples(std::string_view head) {
  constexpr int kLines = 5;
  if (head.starts_with("\xEF\xBB\xBF")) head.remove_prefix(3);
  SampleFileIssues issues;
  RowReader rows(issues);
  std::string padded;
  for (int i = 0; i < kLines && !head.empty(); ++i) {
    const size_t feed = std::min(head.find('\n'), head.size());
    padded.assign(without_blanks(head.substr(0, feed))).append(kJsonPadding, ' ');
    const std::string_view line(padded.data(), padded.size() - kJsonPadding);
    head.remove_prefix(std::min(feed + 1, head.size()));
    if (!line.empty() && rows.read(line) != RowReader::Outcome::kDamaged) return true;
  }
  return false;
}

}  // namespace profgpu
