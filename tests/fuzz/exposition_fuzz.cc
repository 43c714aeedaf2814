// Pages of exporters, counters files and what clients accept: whatever the text, it is read or refused; a label that we
// write reads back as it was.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "watch/exporter/dcgm_fields.h"
#include "watch/exporter/exporter_page.h"
#include "watch/exporter/exposition.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto page = read_exporter_page(text);
  if (page && (page->devices.empty() || page->devices.size() > 4096)) std::abort();
  (void)wanted_format(text);
  (void)takes_gzip(text);
  if (const auto counters = parse_dcgm_counters(text); counters)
    for (const DcgmCounter& c : counters->counters)
      if (!c.field) std::abort();

  std::string valid = text;
  replace_invalid_utf8(valid);
  const std::string line = "name{" + label("x", text) + "} 1\n";
  ExpositionReader lines(line);
  ExpositionSample sample;
  if (!lines.next(sample) || sample.label("x") != valid || sample.value != 1 || lines.next(sample)) std::abort();
  return 0;
}
