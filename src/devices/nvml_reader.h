// What one NVIDIA device says at a tick, with few driver calls.
//
// Each tick makes one batched call for most numbers, and reads utilization, power and what else is wanted at each tick,
// but not more often than the driver has something new. Everything else has a turn: a call with a period of its own. As
// many turns as the budget leaves are taken, the most overdue first. The budget is three calls a tick, or fifteen a
// second where ticks are rarer than 0.2 s: fast and slow ticks both let each turn keep its period, those of some 0.2 s
// make all of them rarer alike. Nothing that blocks is ever called (nvmlDeviceGetPcieThroughput sleeps 20 ms). No
// allocation after the first reading but where the driver's lists grow.
#pragma once

#include <array>
#include <string>

#include "base/result.h"
#include "devices/backend.h"
#include "devices/nvml_fields.h"
#include "devices/nvml_library.h"
#include "devices/nvml_processes.h"
#include "devices/nvml_ring.h"

namespace profgpu::nvml {

/// For one thread at a time, why() aside.
class Reader {
 public:
  struct Place {
    Device device = nullptr;
    Device parent = nullptr;       ///< of a MIG instance
    uint32_t gpu_instance = 0;
    bool divided = false;          ///< a GPU in MIG mode
    double memory_total = 0;
    bool constants_wanted = false; ///< nobody has asked for them
  };
  Reader(Library& library, const Place& place);

  Status read(const ReadRequest& request, Reading& reading);
  [[nodiscard]] std::string why(Metric metric) const { return calls_.why(metric); }
  DeviceCalls& calls() { return calls_; }

 private:
  struct Turn {
    int64_t period_ns;
    int64_t calls;                 ///< that it makes, as a rule
    bool vital;                    ///< an unknown error here is one of the whole device
    bool of_processes;
    Return (Reader::*ask)(Reading& reading);   ///< kSuccess also where there is nothing new
    Metric metric = Metric::kXidLast;  ///< what it tells, of those that may be wanted at each tick...
    Metric last = metric;              ///< ...to here in the enumeration
  };
  static const std::array<Turn, 27> kTurns;
  struct TurnState {
    int64_t last_ns = 0;           ///< 0: never
    bool over = false;             ///< the device has no answer, ever
  };
  Return read_fields(const ReadRequest& request, Reading& reading);
  Return read_processes(const ReadRequest& request);
  Return take_wanted(const ReadRequest& request, Reading& reading);
  Return take_turns(const ReadRequest& request, int64_t begun, Reading& reading);
  Return take(size_t turn, Reading& reading);
  [[nodiscard]] size_t most_overdue();
  Return tell(Return code, Metric metric, double value, Reading& reading);

  Return ask_utilization(Reading& reading);
  Return ask_memory_utilization(Reading& reading);
  Return ask_ring(Ring& ring, Metric metric, uint32_t Utilization::*rate, Reading& reading);
  Return ask_power(Reading& reading);
  Return ask_energy(Reading& reading);
  Return ask_memory(Reading& reading);
  Return ask_bar1(Reading& reading);
  Return ask_temperature(Reading& reading);
  Return ask_margin(Reading& reading);
  Return ask_reasons(Reading& reading);
  Return ask_pstate(Reading& reading);
  template <ClockType Type, Metric M>
  Return ask_clock(Reading& reading);
  template <auto Function, Metric M>
  Return ask_engine(Reading& reading);
  template <GetUint Api::*Function, Metric M>
  Return ask_number(Reading& reading);
  Return ask_gpm(Reading& reading);
  Return ask_constants(Reading& reading);
  Return ask_graphics_processes(Reading& reading);
  Return ask_mps_processes(Reading& reading);
  Return ask_process_utilization(Reading& reading);

  DeviceCalls calls_;
  FieldBatch fields_;
  Ring gpu_ring_, memory_ring_, power_ring_;
  Gpm gpm_;
  Processes processes_;
  std::array<TurnState, 27> turns_;
  size_t next_constant_;           ///< place of the next to be asked for in constants()
  int64_t now_ns_ = 0;             ///< monotonic, of the reading at hand
  int64_t none_due_before_ns_ = 0; ///< monotonic: no turn is
  int64_t until_ns_ = 0;           ///< monotonic: until then a reading of everything goes on; 0 in others
  int64_t credit_ = 0;             ///< calls that may be made
  int64_t read_ns_ = 0;            ///< monotonic, of the reading before; 0: none
  int64_t processes_asked_ns_ = 0; ///< 0: nobody asks for them
  bool power_from_ring_ = false;   ///< it tells something
  int64_t rates_ns_ = 0;           ///< Unix time of the reading that `rates_` are of
  Utilization rates_{};
  bool new_ = true;                ///< nothing was read before the reading at hand
  bool processes_listed_ = false;  ///< in the reading at hand
  bool memory_v2_ = true;
};

}  // namespace profgpu::nvml
