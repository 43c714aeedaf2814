// Packets of a Perfetto trace: tracks, slices on them, counters, with names and categories interned.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/export/data_table.h"
#include "base/byte_writer.h"
#include "base/protobuf.h"
#include "trace/string_pool.h"

namespace profgpu {

class PerfettoPackets {
 public:
  /// Times that are given begin at `origin_ns`, which is that Unix time if it is above 0.
  PerfettoPackets(int64_t origin_ns, ByteWriter& out);

  using Track = uint64_t;   ///< its uuid; 0: none
  Track process(int64_t pid, std::string_view name);
  Track thread(Track process, int64_t pid, int64_t tid, std::string_view name);
  /// A track of its own or, with a parent, below that; `place`: where among its siblings.
  Track track(std::string_view name, Track parent = 0, int32_t place = 0);
  Track counter(std::string_view name, std::string_view unit, Track parent = 0);

  struct Argument {
    std::string_view name;
    Datum value;
  };
  struct Slice {
    std::string_view category, name;
    std::vector<Argument> arguments;
    std::vector<uint64_t> flows;    ///< slices with a flow in common are joined by an arrow
  };
  void begin(Track track, int64_t time_ns, const Slice& slice);
  void end(Track track, int64_t time_ns);
  void value(Track counter, int64_t time_ns, double value);
  [[nodiscard]] bool failed() const { return out_.error() != 0; }

 private:
  enum Interned : uint8_t { kCategory, kName, kArgument, kText };
  uint64_t intern(Interned kind, std::string_view text);
  template <class Fill>
  Track descriptor(Track parent, Fill&& fill);
  template <class Fill>
  void packet(Fill&& fill);
  template <class Fill>
  void event(int type, Track track, int64_t time_ns, Fill&& fill);

  int64_t origin_ns_;
  ByteWriter& out_;
  ProtobufWriter packet_, event_, fresh_;    // fresh_: what this packet interns
  StringPool texts_[4];                      // by Interned
  Track last_track_ = 0;
};

/// Slices of one lane of time, whatever their order of ending: those that overlap without one holding the other go to
/// further tracks below the first. Slices come by start, of one start the longest first.
class PerfettoLanes {
 public:
  PerfettoLanes(PerfettoPackets& packets, PerfettoPackets::Track first) : packets_(packets), lanes_{{first, {}}} {}
  ~PerfettoLanes();
  PerfettoLanes(const PerfettoLanes&) = delete;
  PerfettoLanes& operator=(const PerfettoLanes&) = delete;
  PerfettoLanes(PerfettoLanes&&) = default;
  void add(int64_t start_ns, int64_t end_ns, const PerfettoPackets::Slice& slice);

 private:
  struct Lane {
    PerfettoPackets::Track track;
    std::vector<int64_t> open;    // ends of slices that hold each other, outermost first
  };
  void close(Lane& lane, int64_t until_ns);
  PerfettoPackets& packets_;
  std::vector<Lane> lanes_;
};

}  // namespace profgpu
