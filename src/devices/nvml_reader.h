// Reads one NVIDIA device at a tick with few driver calls.
//
// Each tick makes one batched call for most numbers, and reads utilization, power and what else is wanted at each tick,
// but not more often than the driver has something new. Everything else has a turn: a call with a period of its own. As
// many turns as the budget allows are taken, the most overdue first. The budget is three calls a tick, or fifteen a
// second where ticks are rarer than 0.2 s: fast and slow ticks both let each turn keep its period; ticks of about 0.2 s
// make all turns rarer alike. It never makes a blocking call (nvmlDeviceGetPcieThroughput sleeps 20 ms). No allocation
// after the first reading, except where the driver's lists grow.
#pragma once

#include <array>
#include <span>
#include <string>

#include "base/result.h"
#include "devices/backend.h"
#include "devices/nvml_fields.h"
#include "devices/nvml_library.h"
#include "devices/nvml_processes.h"
#include "devices/nvml_ring.h"

namespace profgpu::nvml {

/// A driver call for one number.
using NumberCall = Return (*)(DeviceCalls& calls, double& value);

/// A limit or maximum of a device.
struct Constant {
  Metric metric;
  NumberCall call;
};
/// Those of a whole GPU; a MIG instance has only the first.
std::span<const Constant> constants();

/// For one thread at a time, why() aside.
class Reader {
 public:
  struct Place {
    Device device = nullptr;
    Device parent = nullptr;       ///< of a MIG instance
    uint32_t gpu_instance = 0;
    bool divided = false;          ///< a GPU in MIG mode
    double memory_total = 0;
    bool constants_wanted = false; ///< they have not been read yet
  };
  Reader(Library& library, const Place& place);

  Status read(const ReadRequest& request, Reading& reading);
  [[nodiscard]] std::string why(Metric metric) const { return calls_.why(metric); }
  DeviceCalls& calls() { return calls_; }

 private:
  struct Turn {
    int64_t period_ns;
    Return (Reader::*ask)(Reading& reading);   ///< kSuccess also where there is nothing new
    Metric metric = Metric::kXidLast;  ///< the first metric it reads, of those that may be wanted at each tick...
    Metric last = metric;              ///< ...and the last one in the enumeration
    int64_t calls = 1;                 ///< that it makes, as a rule
    bool vital = false;                ///< an unknown error here is one of the whole device
    bool of_processes = false;
  };
  template <Metric kMetric, NumberCall kCall>
  static constexpr Turn number_turn(int64_t period_ns) {
    return {period_ns, &Reader::ask_number<kMetric, kCall>, kMetric};
  }
  static const std::array<Turn, 27> kTurns;
  struct TurnState {
    int64_t last_ns = 0;           ///< 0: never
    bool over = false;             ///< the device will never have an answer
  };
  Return read_fields(const ReadRequest& request, Reading& reading);
  Return read_processes(const ReadRequest& request);
  Return take_wanted(const ReadRequest& request, Reading& reading);
  Return take_turns(const ReadRequest& request, int64_t begun, Reading& reading);
  Return take(size_t turn, Reading& reading);
  [[nodiscard]] size_t most_overdue();
  Return tell(Return code, Metric metric, double value, Reading& reading);

  template <Metric kMetric, NumberCall kCall>
  Return ask_number(Reading& reading) {
    double value = 0;
    const Return code = kCall(calls_, value);
    return tell(code, kMetric, value, reading);
  }
  Return ask_utilization(Reading& reading);
  Return ask_memory_utilization(Reading& reading);
  Return ask_ring(Ring& ring, Metric metric, uint32_t Utilization::*rate, Reading& reading);
  Return ask_power(Reading& reading);
  Return ask_energy(Reading& reading);
  Return ask_memory(Reading& reading);
  Return ask_gpm(Reading& reading) { return gpm_.read(now_ns_, reading); }
  Return ask_constants(Reading& reading);
  Return ask_graphics_processes(Reading&) { return processes_.read_list(Processes::kGraphics); }
  Return ask_mps_processes(Reading&) { return processes_.read_list(Processes::kMps); }
  Return ask_process_utilization(Reading& reading) { return processes_.read_utilization(reading.time_ns); }

  DeviceCalls calls_;
  FieldBatch fields_;
  Ring gpu_ring_, memory_ring_, power_ring_;
  Gpm gpm_;
  Processes processes_;
  std::array<TurnState, 27> turns_;
  size_t next_constant_;           ///< index in constants() of the next one to read
  int64_t now_ns_ = 0;             ///< monotonic, of the current reading
  int64_t none_due_before_ns_ = 0; ///< monotonic: no turn is
  int64_t until_ns_ = 0;           ///< monotonic: deadline of a reading of everything; 0 in others
  int64_t credit_ = 0;             ///< calls that may be made
  int64_t read_ns_ = 0;            ///< monotonic, of the previous reading; 0: none
  int64_t processes_asked_ns_ = 0; ///< 0: never requested
  bool power_from_ring_ = false;   ///< it reports something
  int64_t rates_ns_ = 0;           ///< Unix time of the reading that `rates_` are of
  Utilization rates_{};
  bool new_ = true;                ///< the current reading is the first
  bool processes_listed_ = false;  ///< in the current reading
  bool memory_v2_ = true;
};

}  // namespace profgpu::nvml
