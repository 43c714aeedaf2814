// The users of a card: for every open file of a card, the kernel lists in /proc/PID/fdinfo how its owner uses it
// (Documentation/gpu/drm-usage-stats.rst). Engine times are counters; use is their difference between two looks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/sample.h"

namespace profgpu {

struct DrmEngine {
  double busy = 0;          ///< ns, or cycles where `total` is not 0
  double total = 0;         ///< cycles elapsed on the device
  double capacity = 1;      ///< engines of the kind
};

/// One open file of a card, with all its duplicates.
struct DrmClient {
  int64_t pid = 0;          ///< the lowest that has it
  int64_t id = 0;
  std::string pci;
  std::optional<int64_t> memory_bytes;       ///< on the device
  std::map<std::string, DrmEngine> engines;  ///< "gfx", "compute", "render", "rcs" ...
};

/// Of the text of an fdinfo file; nullopt if it is not of a card of these drivers.
std::optional<DrmClient> drm_client(std::string_view fdinfo, const std::vector<std::string_view>& drivers);

/// The result of a look at the clients of one card.
struct DrmUse {
  bool complete = false;                 ///< no process was hidden from us
  bool compared = false;                 ///< there was a look before this one
  std::vector<ProcessSample> processes;
  std::map<std::string, double> engines_pct;  ///< by kind of engine, since the look before
  std::optional<int64_t> memory_bytes;   ///< of all clients together
  int64_t time_ns = 0;                   ///< monotonic, of the look
};

/// Looks at most once a second; thread-safe.
class DrmClients {
 public:
  DrmClients(std::string proc, std::vector<std::string_view> drivers)
      : proc_(std::move(proc)), drivers_(std::move(drivers)) {}
  /// nullopt: nothing new since `seen_ns` (the time_ns of the caller's last use).
  std::optional<DrmUse> use_of(const std::string& pci, int64_t now_ns, int64_t seen_ns);

 private:
  using Key = std::pair<std::string, int64_t>;
  void look(int64_t now_ns);
  void look_at(int64_t pid);
  static ProcessSample& process_of(DrmUse& use, int64_t pid);
  void add_use(DrmClient& client, double elapsed_ns);

  const std::string proc_;
  const std::vector<std::string_view> drivers_;
  std::mutex mutex_;
  std::map<Key, DrmClient> clients_, before_;
  std::map<std::string, DrmUse> uses_;
  int64_t last_look_ns_ = 0;
  int64_t hidden_ = 0;
  int looks_ = 0;                        ///< 2: two or more
};

}  // namespace profgpu
