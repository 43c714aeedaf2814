// Numbers of fields are those of Perfetto's published trace format (protos/perfetto/trace).
#include "app/export/perfetto_packets.h"

#include <algorithm>
#include <limits>

#include "base/saturated.h"

namespace profgpu {
namespace {

constexpr uint32_t kTracePacket = 1;
namespace packet_field {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12,
                   kSequenceFlags = 13, kTrackDescriptor = 60, kFirstOnSequence = 87;
}
namespace event_field {
constexpr uint32_t kCategory = 3, kAnnotation = 4, kType = 9, kName = 10, kTrack = 11, kReal = 44, kFlow = 47;
}
namespace descriptor_field {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParent = 5, kCounter = 8, kChildOrdering = 11,
                   kPlace = 12;
}
constexpr uint32_t kInternedFields[] = {
    1, 2, 3, 29};  // event_categories, event_names, debug_annotation_names, ..._string_values
enum EventType { kBegin = 1, kEnd = 2, kCounterValue = 4 };

constexpr uint64_t kOurSequence = 1;
constexpr uint64_t kStateCleared = 1, kNeedsState = 2;
constexpr uint64_t kRealtime = 1, kBoottime = 6;
constexpr uint64_t kExplicitOrder = 3;
// A time of 0 would read as none.
constexpr int64_t kFirst_ns = 1'000'000'000;

}  // namespace

template <class Fill>
void PerfettoPackets::packet(Fill&& fill) {
  packet_.clear();
  packet_.message(kTracePacket, fill);
  out_.put(packet_.bytes());
}

PerfettoPackets::PerfettoPackets(int64_t origin_ns, ByteWriter& out) : origin_ns_(origin_ns), out_(out) {
  packet([&] {
    packet_.number(packet_field::kSequence, kOurSequence);
    packet_.number(packet_field::kSequenceFlags, kStateCleared);
    packet_.number(packet_field::kFirstOnSequence, 1);
  });
  if (origin_ns <= 0) return;
  packet([&] {
    packet_.number(packet_field::kSequence, kOurSequence);
    packet_.message(packet_field::kClockSnapshot, [&] {
      for (const auto& [clock, time] : {std::pair{kBoottime, kFirst_ns}, {kRealtime, origin_ns}})
        packet_.message(1, [&, id = clock, ns = time] { packet_.number(1, id), packet_.integer(2, ns); });
      packet_.number(2, kBoottime);   // primary_trace_clock
    });
  });
}

template <class Fill>
PerfettoPackets::Track PerfettoPackets::descriptor(Track parent, Fill&& fill) {
  const Track track = ++last_track_;
  packet([&] {
    packet_.number(packet_field::kSequence, kOurSequence);
    packet_.message(packet_field::kTrackDescriptor, [&] {
      packet_.number(descriptor_field::kUuid, track);
      if (parent != 0) packet_.number(descriptor_field::kParent, parent);
      fill();
    });
  });
  return track;
}

PerfettoPackets::Track PerfettoPackets::process(int64_t pid, std::string_view name) {
  return descriptor(0, [&] {
    packet_.message(descriptor_field::kProcess, [&] { packet_.integer(1, pid), packet_.text(6, name); });
  });
}

PerfettoPackets::Track PerfettoPackets::thread(Track process, int64_t pid, int64_t tid, std::string_view name) {
  return descriptor(process, [&] {
    packet_.message(descriptor_field::kThread, [&] {
      packet_.integer(1, pid), packet_.integer(2, tid);
      if (!name.empty()) packet_.text(5, name);
    });
  });
}

PerfettoPackets::Track PerfettoPackets::track(std::string_view name, Track parent, int32_t place) {
  return descriptor(parent, [&] {
    packet_.text(descriptor_field::kName, name);
    packet_.number(descriptor_field::kChildOrdering, kExplicitOrder);
    packet_.integer(descriptor_field::kPlace, place);
  });
}

PerfettoPackets::Track PerfettoPackets::counter(std::string_view name, std::string_view unit, Track parent) {
  constexpr uint64_t kSizeBytes = 3;
  return descriptor(parent, [&] {
    packet_.text(descriptor_field::kName, name);
    packet_.message(descriptor_field::kCounter, [&] {
      if (unit == "bytes" || unit == "B") packet_.number(3, kSizeBytes);
      else if (!unit.empty()) packet_.text(6, unit);
    });
  });
}

uint64_t PerfettoPackets::intern(Interned kind, std::string_view text) {
  const size_t known = texts_[kind].size();
  const uint64_t id = uint64_t{texts_[kind].intern(text).value} + 1;
  if (texts_[kind].size() > known)
    fresh_.message(kInternedFields[kind], [&] { fresh_.number(1, id), fresh_.text(2, text); });
  return id;
}

template <class Fill>
void PerfettoPackets::event(int type, Track track, int64_t time_ns, Fill&& fill) {
  event_.clear();
  fresh_.clear();
  fill();
  packet([&] {
    packet_.number(packet_field::kTimestamp,
                   static_cast<uint64_t>(std::max<int64_t>(saturated_sub(time_ns, origin_ns_), 0)) + kFirst_ns);
    packet_.number(packet_field::kSequence, kOurSequence);
    packet_.number(packet_field::kSequenceFlags, kNeedsState);
    if (!fresh_.bytes().empty()) packet_.text(packet_field::kInternedData, fresh_.bytes());
    packet_.message(packet_field::kTrackEvent, [&] {
      packet_.number(event_field::kType, static_cast<uint64_t>(type));
      packet_.number(event_field::kTrack, track);
      packet_.append(event_.bytes());
    });
  });
}

void PerfettoPackets::begin(Track track, int64_t time_ns, const Slice& slice) {
  event(kBegin, track, time_ns, [&] {
    event_.number(event_field::kCategory, intern(kCategory, slice.category));
    event_.number(event_field::kName, intern(kName, slice.name));
    for (const Argument& a : slice.arguments) {
      if (a.value.kind() == Datum::Kind::kNull) continue;
      const uint64_t name = intern(kArgument, a.name);
      const uint64_t text = a.value.kind() == Datum::Kind::kText ? intern(kText, a.value.text()) : 0;
      event_.message(event_field::kAnnotation, [&] {
        event_.number(1, name);
        if (a.value.kind() == Datum::Kind::kInteger) event_.integer(4, a.value.integer());
        if (a.value.kind() == Datum::Kind::kReal) event_.real(5, a.value.real());
        if (text != 0) event_.number(17, text);
      });
    }
    for (const uint64_t flow : slice.flows) event_.fixed64(event_field::kFlow, flow);
  });
}

void PerfettoPackets::end(Track track, int64_t time_ns) {
  event(kEnd, track, time_ns, [] {});
}

void PerfettoPackets::value(Track counter, int64_t time_ns, double value) {
  event(kCounterValue, counter, time_ns, [&] { event_.real(event_field::kReal, value); });
}

void PerfettoLanes::close(Lane& lane, int64_t until_ns) {
  for (; !lane.open.empty() && lane.open.back() <= until_ns; lane.open.pop_back())
    packets_.end(lane.track, lane.open.back());
}

void PerfettoLanes::add(int64_t start_ns, int64_t end_ns, const PerfettoPackets::Slice& slice) {
  size_t at = 0;
  for (; at < lanes_.size(); ++at) {
    close(lanes_[at], start_ns);
    if (lanes_[at].open.empty() || end_ns <= lanes_[at].open.back()) break;
  }
  if (at == lanes_.size())
    lanes_.push_back({packets_.track("overlapping", lanes_.front().track, static_cast<int32_t>(at)), {}});
  packets_.begin(lanes_[at].track, start_ns, slice);
  lanes_[at].open.push_back(end_ns);
}

PerfettoLanes::~PerfettoLanes() {
  for (Lane& lane : lanes_) close(lane, std::numeric_limits<int64_t>::max());
}

}  // namespace profgpu
