// One event of a Kineto trace as text. Internal to kineto_text.cc.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "tests/support/kineto_text.h"
#include "tests/support/sim_device.h"
#include "tests/support/sim_shapes.h"

namespace profgpu::sim {

class KinetoRows {
 public:
  KinetoRows(const RankTrace& trace, const KinetoStyle& style)
      : t_(trace), style_(style), old_(style.generation == KinetoGeneration::v1_8), facts_(facts(trace.gpu)) {}

  std::string out;

  void host(ThreadSlot thread, size_t row, size_t event_index);
  void host_flow(ThreadSlot thread, size_t row);
  void memory(size_t row, size_t event_index);
  void python(size_t row, size_t event_index);
  void call(size_t row);
  void call_flow(size_t row, bool has_activity);
  void device(size_t row);
  void device_flow(size_t row);
  void sync(size_t row);
  void overhead(size_t row);
  void gpu_span(size_t row);

  void time(int64_t ns);  // a point in time
  void number(int64_t value);
  void add(const char* text) { out += text; }
  [[nodiscard]] bool old() const { return old_; }

 private:
  void head(const char* category, const std::string& name, int64_t pid, int64_t tid, const char* tid_prefix,
            int64_t start, int64_t duration);
  void tail() { out += "\n    }\n  },\n"; }
  void duration(int64_t start, int64_t ns);
  void flow(char phase, uint32_t id, int64_t pid, int64_t tid, const char* tid_prefix, int64_t start,
            const char* category);
  void shapes(const HostRow& row);
  const ShapeText& shapes_of_row(const HostRow& row);
  void collective(uint32_t row);
  void members(const Group& group);
  void geometry(const Geometry& g);
  void ratio(int64_t numerator, int64_t denominator);

  const RankTrace& t_;
  const KinetoStyle& style_;
  const bool old_;
  const DeviceFacts& facts_;
  std::map<std::tuple<uint32_t, uint8_t, uint16_t>, ShapeText> shapes_;   // by name, role and batch
};

}  // namespace profgpu::sim
