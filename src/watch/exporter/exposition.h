// The text formats that Prometheus reads: its own, version 0.0.4, and OpenMetrics 1.0.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace profgpu {

enum class ExpositionFormat : uint8_t { kPrometheus, kOpenMetrics };
/// For the header Content-Type.
std::string_view content_type(ExpositionFormat format);

enum class SeriesType : uint8_t { kGauge, kCounter };

/// Writes one family after the other. Omits a family without samples.
class Exposition {
 public:
  /// `room`: expected length of the page.
  Exposition(ExpositionFormat format, size_t room) : format_(format) { page_.reserve(room); }

  /// `name` includes "_total" where counters have it. In OpenMetrics, counters without it become of unknown type.
  void family(std::string_view name, SeriesType type, std::string_view help);
  /// `labels`: pairs from label(), separated by commas. `text`: the number.
  void sample(std::string_view labels, std::string_view text);
  void sample(std::string_view labels, double value);

  /// The whole page; the writer is empty afterwards.
  std::string take();

 private:
  void begin_sample();

  ExpositionFormat format_;
  std::string page_, name_, help_;
  SeriesType type_ = SeriesType::kGauge;
  bool begun_ = false;  // its header is on the page
};

/// name="value", escaped as the formats require, with invalid UTF-8 replaced.
std::string label(std::string_view name, std::string_view value);
/// The shortest text of a number: whole numbers have no point.
std::string number_text(double value);

// What a client accepts, by the headers of its request (RFC 9110, section 12.5).

/// OpenMetrics only where it is requested by name with at least the quality of plain text.
ExpositionFormat wanted_format(std::string_view accept);
bool takes_gzip(std::string_view accept_encoding);

// Reads names, labels and values of the text formats that Prometheus reads.

struct ExpositionSample {
  std::string_view name;                                          ///< within the page
  std::vector<std::pair<std::string_view, std::string>> labels;   ///< values unescaped
  double value = 0;

  /// Empty if it is not there.
  [[nodiscard]] std::string_view label(std::string_view key) const;
};

class ExpositionReader {
 public:
  /// `page` must outlive the samples.
  explicit ExpositionReader(std::string_view page) : rest_(page) {}

  /// The next sample with a finite value; false: none. Skips other lines.
  bool next(ExpositionSample& sample);

 private:
  std::string_view rest_;
};

}  // namespace profgpu
