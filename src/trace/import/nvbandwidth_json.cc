// nvbandwidth's own JSON (-j): a matrix for each test. Where a test copies both ways at once, its matrices follow each
// other in one, and only the last one is described.
#include "base/decimal.h"
#include "base/json_reader.h"
#include "trace/import/importer.h"
#include "trace/import/log/log_line.h"
#include "trace/import/result_json.h"

namespace profgpu {
namespace {

constexpr size_t kMostTests = 1'000, kMostCopies = 1 << 22;
constexpr size_t kMostBandwidthJson = size_t{256} << 20;

std::string copy_text(std::string_view raw) {
  return raw.size() >= 2 && raw.front() == '"' ? quotable(raw.substr(1, raw.size() - 2)) : std::string();
}

// Numbers are texts, as "N/A" is.
std::optional<double> copy_rate(std::string_view raw) {
  if (raw.size() >= 2 && raw.front() == '"') raw = raw.substr(1, raw.size() - 2);
  const auto value = real_number(raw);
  return value && *value >= 0 && *value < 1e12 ? value : std::nullopt;
}

class BandwidthJson {
 public:
  BandwidthJson(JsonReader json, RunLog& out) : json_(json), out_(out) {}

  bool read() {
    return read_object(json_, [&](std::string_view key) {
      if (key != "nvbandwidth" || json_.peek() != '{') return json_.skip_value();
      return read_object(json_, [&](std::string_view part) {
        if (part == "testcases" && json_.peek() == '[') return read_array(json_, [&] { return test(); });
        return json_.skip_value();
      });
    });
  }

 private:
  bool test() {
    CopyMatrix matrix;
    if (json_.peek() != '{') return json_.skip_value();
    const bool whole = read_object(json_, [&](std::string_view key) {
      if (key == "bandwidth_matrix" && json_.peek() == '[')
        return read_array(json_, [&] { return row(matrix); });
      std::string_view raw;
      if (!json_.raw_value(raw)) return false;
      if (key == "name") matrix.test = copy_text(raw);
      if (key == "bandwidth_description") matrix.description = copy_text(raw);
      if (key == "sum") matrix.sum = copy_rate(raw);
      return true;
    });
    take(std::move(matrix));
    return whole;
  }

  bool row(CopyMatrix& matrix) {
    if (json_.peek() != '[') return json_.skip_value();
    std::vector<std::optional<double>> cells;
    const bool whole = read_array(json_, [&] {
      std::string_view raw;
      if (!json_.raw_value(raw)) return false;
      if (++copies_ <= kMostCopies) cells.push_back(copy_rate(raw));
      return true;
    });
    if (!cells.empty()) matrix.rows.push_back(std::move(cells));
    return whole;
  }

  // "…_read1", "…_read2", "…_total" by the names of the text.
  void take(CopyMatrix matrix) {
    const size_t columns = matrix.rows.empty() ? 0 : matrix.rows.front().size();
    if (columns == 0 || out_.copies.size() >= kMostTests) return;
    const size_t each = matrix.test.starts_with("device_to_device_bidirectional") ? columns : matrix.rows.size();
    const size_t parts = matrix.rows.size() / each;
    if (parts < 2 || matrix.rows.size() % each != 0) return out_.copies.push_back(std::move(matrix));
    for (size_t part = 0; part < parts; ++part) {
      const auto begin = matrix.rows.begin() + static_cast<std::ptrdiff_t>(part * each);
      CopyMatrix& one = out_.copies.emplace_back();
      const bool last = part + 1 == parts;
      one.test = matrix.test + (last ? "_total" : "_" + std::to_string(part + 1));
      one.description = matrix.description;
      one.rows.assign(begin, begin + static_cast<std::ptrdiff_t>(each));
      if (last) one.sum = matrix.sum;
    }
  }

  JsonReader json_;
  RunLog& out_;
  size_t copies_ = 0;
};

Result<Trace> read_bandwidth_json(const std::string& path, const ImportOptions&) {
  RunLog begun;
  begun.families = {"nvbandwidth"}, begun.rate_notes["program"] = "nvbandwidth";
  return read_result_json(path, kMostBandwidthJson, std::move(begun),
                          [](JsonReader json, RunLog& log) { return BandwidthJson(json, log).read(); });
}

bool looks_like_bandwidth_json(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  const auto says = [&](std::string_view word) { return head.find(word) != head.npos; };
  return begin != head.npos && head[begin] == '{' && says("\"nvbandwidth\"") &&
         (says("\"testcases\"") || says("\"CUDA Runtime Version\""));
}

}  // namespace

extern const Importer kNvbandwidthJson = {
    .name = "nvbandwidth",
    .noun = "nvbandwidth result",
    .summary = "rates of copies between hosts and GPUs: nvbandwidth's JSON (-j); its text is read as a log",
    .examples = "nvbandwidth.json",
    .sniff = looks_like_bandwidth_json,
    .read = read_bandwidth_json,
    .beside_traces = true};

}  // namespace profgpu
