// Reads the text formats that Prometheus reads, as far as a page of numbers needs it: names, labels and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace profgpu {

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
