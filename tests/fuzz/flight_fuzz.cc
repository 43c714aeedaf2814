// Any bytes as a dump of NCCL's flight recorder: read, and analyzed as the dump of each of three ranks.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "analyse/run/flight_report.h"
#include "tests/fuzz/whole_report.h"

namespace profgpu {
extern const Importer kFlightRecorder;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace profgpu;
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  auto trace = kFlightRecorder.read(path, {});
  if (!trace) {
    require(!trace.error().message.empty(), "an error has a message");
    return 0;
  }
  std::vector<std::shared_ptr<const FlightDump>> dumps;
  for (int rank = 0; rank < 3; ++rank) {
    auto copy = std::make_shared<FlightDump>(*trace->flight);
    copy->rank = rank;
    if (rank == 2 && !copy->calls.empty()) copy->calls.pop_back();
    dumps.push_back(std::move(copy));
  }
  const FlightReport report = flight_report(dumps);
  require(report.open_calls <= report.calls, "open calls are calls");
  require(report.suspects.size() <= 4, "few are blamed");
  for (const FlightWait& w : report.waits) require(!w.waiting.empty(), "somebody waits in a wait");
  return 0;
}
