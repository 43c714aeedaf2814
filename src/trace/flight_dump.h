// FlightDump: what one rank's process groups had called, as PyTorch's flight recorder of NCCL wrote it down when the
// job hung. Versions 1.1 to 2.10, pickle or JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profgpu {

enum class FlightState : uint8_t { kScheduled, kStarted, kCompleted };
std::string_view flight_state_name(FlightState state);

/// One send or receive of a point-to-point call. The peers are numbers within the group.
struct FlightPart {
  int from = 0, to = 0;
  bool sends = false;     ///< the call's rank is `from`
  int64_t elements = -1;  ///< -1: not known
  std::string sizes, dtype;
};

/// One call. Calls that were coalesced (batch_isend_irecv, lists of tensors) are one: they start and end together.
struct FlightCall {
  int64_t record = 0;    ///< counts the rank's calls over all groups
  uint32_t group = 0;    ///< in FlightDump::groups
  std::string name;      ///< "all_reduce", without "nccl:"; empty: not known
  int64_t sequence = 0;  ///< of the group's collectives, or of its point-to-point calls
  bool p2p = false;
  std::vector<FlightPart> parts;  ///< of a point-to-point call; empty: not known
  FlightState state = FlightState::kScheduled;
  std::optional<int64_t> created_ns;  ///< Unix time
  std::optional<int64_t> timeout_ms;
  std::string sizes;                ///< of its inputs, as printed: "[[2048, 1, 5120]]"
  int64_t elements = -1;            ///< of all inputs together; -1: not known
  std::string dtype;                ///< of its inputs: "BFloat16"
  std::vector<std::string> frames;  ///< "train_step (train.py:120)", innermost first, those of PyTorch left out

  [[nodiscard]] bool pending() const { return state != FlightState::kCompleted; }
};

struct FlightGroup {
  std::string name;         ///< as PyTorch counts groups: "35"
  std::string description;  ///< "TENSOR_MODEL_PARALLEL_GROUP"; empty: it has none
  std::vector<int> ranks;   ///< of the job; empty: the dump does not say
  int64_t local_id = -1;    ///< the rank's own number of it; -1: not known
};

/// What a rank says of the last calls in one of its groups.
struct FlightStatus {
  int64_t local_id = -1;
  std::optional<int64_t> last_enqueued, last_completed;
};

struct FlightDump {
  std::string path;
  std::string version, nccl_version;
  std::optional<int> rank;   ///< from the file's name; none: it has no number
  bool only_pending = true;  ///< calls that had completed are left out of it, or there were none
  std::vector<FlightGroup> groups;
  std::vector<FlightStatus> status;
  std::vector<FlightCall> calls;  ///< in the order of the file
  std::string problem;            ///< why the file could not be read to its end; empty: it could
};

}  // namespace profgpu
