#include "trace/flight_dump.h"

namespace profgpu {

std::string_view flight_state_name(FlightState state) {
  constexpr std::string_view kNames[] = {"scheduled", "started", "completed"};
  return kNames[static_cast<size_t>(state)];
}

}  // namespace profgpu
