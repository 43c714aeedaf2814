// nvbandwidth's text: a matrix for each test, one for each direction and a total where a test copies both ways at once.
//
//   Running device_to_device_memcpy_read_ce.
//   memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
//              0         1
//    0       N/A    394.52
//    1    394.66       N/A
//
//   SUM device_to_device_memcpy_read_ce 789.18
#include "base/text.h"
#include "trace/import/log/log_family.h"

namespace profgpu {
namespace {

constexpr std::string_view kBandwidthName = "nvbandwidth";
constexpr size_t kMostMatrices = 1'000, kMostDevices = 4'096;

class Nvbandwidth : public LogReading {
 public:
  bool read(const LogLine& line, LogBuilder& rows) override {
    const std::string_view text = without_blanks(line.text);
    if (const auto name = after(text, "Running "); name && text.starts_with("Running ") && name->ends_with('.'))
      return test_ = name->substr(0, name->size() - 1), columns_ = 0, false;
    if (const auto sum = after(text, "SUM ")) return read_sum(*sum, rows);
    if (text.find("(column)") != text.npos && (text.ends_with("(GB/s)") || text.ends_with("(ns)"))) {
      description_ = text, columns_ = 0, open_ = !test_.empty();
      return false;
    }
    if (!open_) return false;
    return columns_ == 0 ? read_head(text) : read_row(text, line, rows);
  }
  [[nodiscard]] bool expects_more() const override { return open_; }

 private:
  // "0         1         2"
  bool read_head(std::string_view text) {
    int64_t next = 0;
    for (const std::string_view word : pieces_of(text, ' ')) {
      if (leading_integer(word) != next) return open_ = false;
      ++next;
    }
    columns_ = static_cast<size_t>(next), begins_ = true;
    open_ = columns_ > 0 && columns_ <= kMostDevices;
    return open_;
  }

  // "1    394.66       N/A"
  bool read_row(std::string_view text, const LogLine& line, LogBuilder& rows) {
    std::vector<std::string_view> words = pieces_of(text, ' ');
    const auto index = words.empty() ? std::nullopt : leading_integer(words.front());
    std::vector<CopyMatrix>& all = rows.log().copies;
    if (words.size() != columns_ + 1 || !index || (begins_ && all.size() >= kMostMatrices)) return open_ = false;
    std::vector<std::optional<double>> cells;
    for (size_t i = 1; i < words.size(); ++i) {
      std::string_view rest;
      const auto value = printed_number(words[i], &rest);
      const bool known = value && rest.empty() && *value >= 0 && *value < 1e12;
      if (!known && words[i] != "N/A") return open_ = false;
      cells.push_back(known ? value : std::nullopt);
    }
    if (begins_) {
      all.push_back({quotable(test_), quotable(description_), {}, {}, line.number, std::string(line.node)});
      rows.log().rate_notes.try_emplace("program", kBandwidthName);
      begins_ = false;
    }
    if (all.back().rows.size() >= kMostDevices) return open_ = false;
    all.back().rows.push_back(std::move(cells));
    return true;
  }

  // "device_to_device_bidirectional_memcpy_read_ce_read1 789.18": it names the matrix before it.
  bool read_sum(std::string_view text, LogBuilder& rows) {
    open_ = false;
    std::vector<CopyMatrix>& all = rows.log().copies;
    const std::string_view name = text.substr(0, text.find(' '));
    const auto sum = number_after(text, " ");
    if (all.empty() || all.back().sum || !sum || !name.starts_with(all.back().test)) return false;
    all.back().test = quotable(name), all.back().sum = sum;
    return true;
  }

  std::string test_, description_;
  bool open_ = false, begins_ = false;
  size_t columns_ = 0;
};

}  // namespace

extern const LogFamily kNvbandwidth = {kBandwidthName,
                                       "nvbandwidth: copies between hosts and GPUs, and between GPUs",
                                       {"Running ", "(column)", "SUM "},
                                       [] { return std::unique_ptr<LogReading>(new Nvbandwidth); }};

}  // namespace profgpu
