// What XLA's and TensorFlow's profiler records, whichever file it stands in, to rows of a Shard.
//
// Planes are a host's or a device's, lines are threads, streams, or views derived from them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/trace_builder.h"

namespace profgpu {

/// A line of a plane, by their names.
struct XlaLine {
  enum class Kind : uint8_t {
    kHost,      ///< a thread
    kStream,    ///< of a GPU
    kOps,       ///< of a device without streams: what it ran; of others a view of their kernels
    kAsyncOps,  ///< likewise, beside those
    kSteps,     ///< a view of the device's steps
    kDerived,   ///< other views of the same time
    kUnknown,
  };
  Kind kind = Kind::kUnknown;
  int32_t device = 0;
  int64_t stream = 0;
  std::string process, thread, name;
  std::string device_type;   ///< "GPU", "TPU"
};
XlaLine xla_line(std::string_view plane, std::string_view line, std::string_view process, std::string_view thread);

struct XlaEvent {
  std::string_view name;
  int64_t start_ns = 0, duration_ns = 0;
  /// What the file says of it by the name of a statistic; empty: nothing. Null: nothing at all.
  const std::function<std::string(std::string_view)>* stat = nullptr;
};

class XlaRows {
 public:
  explicit XlaRows(Shard& shard) : shard_(shard) {}

  void add(const XlaLine& line, const XlaEvent& event);
  /// Once all were added: what of devices' views stands for what is not there otherwise.
  void finish();

  /// Names of devices, as far as the file has them, are completed with their type.
  void name_devices(std::vector<DeviceProperties>& devices) const;
  [[nodiscard]] int64_t derived() const { return derived_; }
  /// Operations that contain others, such as loops: these count.
  [[nodiscard]] int64_t containers() const { return containers_; }
  [[nodiscard]] int64_t unknown() const { return unknown_; }

 private:
  struct Later {
    XlaLine line;
    std::string name;
    int64_t start_ns, duration_ns;
    bool contains = false;   ///< other operations
  };
  void mark_containers();
  void add_host(const XlaLine& line, const XlaEvent& event);
  void add_activity(const XlaLine& line, const XlaEvent& event);
  void add_range(const XlaLine& line, std::string_view name, int64_t start_ns, int64_t duration_ns, HostKind kind,
                 uint32_t link = 0);
  bool in_time(const XlaEvent& event);

  Shard& shard_;
  std::vector<Later> later_;
  std::map<int32_t, bool> has_streams_;   // by device
  std::pair<std::string, std::string> named_;   // process and thread that got their name last; rows come in runs
  bool has_steps_ = false;                // of the host
  std::map<int32_t, std::string> device_types_;
  int64_t derived_ = 0, unknown_ = 0, containers_ = 0;
};

/// Why rows were left out.
void add_xla_issues(const XlaRows& rows, const IssueCounts& counts, Trace& trace);

}  // namespace profgpu
