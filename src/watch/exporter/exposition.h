// The text formats that Prometheus reads: its own, version 0.0.4, and OpenMetrics 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace profgpu {

enum class ExpositionFormat : uint8_t { kPrometheus, kOpenMetrics };
/// As in the header Content-Type.
std::string_view content_type(ExpositionFormat format);

enum class SeriesType : uint8_t { kGauge, kCounter };

/// Writes one family after the other. A family without a sample leaves no trace.
class Exposition {
 public:
  /// `room`: about how long the page gets.
  Exposition(ExpositionFormat format, size_t room) : format_(format) { page_.reserve(room); }

  /// `name` with "_total" where counters have it. OpenMetrics knows no other counters; there such are of unknown type.
  void family(std::string_view name, SeriesType type, std::string_view help);
  /// `labels`: pairs as label() makes them, with commas between. `text`: the number.
  void sample(std::string_view labels, std::string_view text);
  void sample(std::string_view labels, double value);
  /// `more`: one label after `labels`, of which there is at least one.
  void sample(std::string_view labels, std::string_view more, double value);

  /// The whole page; the writer is empty afterwards.
  std::string take();

 private:
  void begin_family();
  void append_name();

  ExpositionFormat format_;
  std::string page_, name_, help_;
  SeriesType type_ = SeriesType::kGauge;
  bool begun_ = false;  // its header is on the page
};

/// name="value", with what the formats forbid in values escaped, and bytes that are no UTF-8 replaced.
std::string label(std::string_view name, std::string_view value);
/// Shortest text of a number: whole numbers without a point.
std::string number_text(double value);

// What a client takes, by the headers of its request (RFC 9110, section 12.5).

/// OpenMetrics only where it is asked for by name and not liked less than plain text.
ExpositionFormat wanted_format(std::string_view accept);
bool takes_gzip(std::string_view accept_encoding);

// Reads the text formats that Prometheus reads, as far as a page of numbers needs it: names, labels and values.

struct ExpositionSample {
  std::string_view name;                                          ///< within the page
  std::vector<std::pair<std::string_view, std::string>> labels;   ///< values without escapes
  double value = 0;

  /// Empty if it is not there.
  [[nodiscard]] std::string_view label(std::string_view key) const;
};

class ExpositionReader {
 public:
  /// `page` must outlive the samples.
  explicit ExpositionReader(std::string_view page) : rest_(page) {}

  /// The next sample with a finite value; false: there is none. Lines that are none are counted and passed over.
  bool next(ExpositionSample& sample);
  [[nodiscard]] int64_t damaged_lines() const { return damaged_; }

 private:
  std::string_view rest_;
  int64_t damaged_ = 0;
};

}  // namespace profgpu
