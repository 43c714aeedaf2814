#include "import/recording_nccl.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/json_reader.h"

namespace profgpu {
namespace {

/// What payloads of NCCL's ranges hold, by the names that its schemas give the fields.
struct RangeFields {
  std::optional<uint64_t> communicator, bytes, rank, ranks, peer;
};

std::optional<uint64_t> unsigned_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

RangeFields fields_of(std::string_view arguments) {
  RangeFields out;
  const std::pair<std::string_view, std::optional<uint64_t>*> known[] = {{"NCCL communicator ID", &out.communicator},
                                                                          {"Message size [bytes]", &out.bytes},
                                                                          {"Rank", &out.rank},
                                                                          {"No. of ranks", &out.ranks},
                                                                          {"Peer rank", &out.peer}};
  std::string text = fmt::format("{{{}}}", arguments);
  JsonReader reader = JsonReader::over(text);
  read_object(reader, [&](std::string_view key) {
    std::string_view value;
    if (!reader.raw_value(value)) return false;
    const auto at = std::find_if(std::begin(known), std::end(known), [&](const auto& k) { return k.first == key; });
    if (at != std::end(known)) *at->second = unsigned_number(value);
    return true;
  });
  return out;
}

int32_t small(std::optional<uint64_t> number, int32_t otherwise) {
  return number && *number <= INT32_MAX ? static_cast<int32_t>(*number) : otherwise;
}

}  // namespace

NcclCall nccl_call(const wire::CollectiveRow& row, const RecordingFile& file) {
  NcclCall c;
  c.function = file.strings[row.function];
  c.data_type = file.strings[row.data_type];
  if (c.data_type.starts_with("nccl")) c.data_type.remove_prefix(4);
  // Communicators may share a name; NCCL's hash tells them apart, and is the same on all ranks.
  c.group = file.strings[row.communicator_name];
  if (!c.group.empty()) c.group += ' ';
  c.group += fmt::format("{:x}", row.communicator);
  c.ranks = small(row.ranks, INT32_MAX);
  c.rank = row.rank < row.ranks ? small(row.rank, -1) : -1;
  c.peer = row.root_or_peer;
  c.sequence = row.sequence <= INT64_MAX ? static_cast<int64_t>(row.sequence) : -1;
  c.count = row.count <= INT64_MAX ? static_cast<int64_t>(row.count) : -1;
  return c;
}

Collective collective_of(const NcclCall& call, StringPool& strings) {
  Collective c;
  c.name = strings.intern(call.function);
  c.dtype = strings.intern(call.data_type);
  c.group = strings.intern(call.group);
  c.group_size = call.ranks;
  c.group_rank = call.rank;
  const bool send = call.function == "Send", receive = call.function == "Recv";
  if (send) c.destination = call.peer;
  if (receive) c.source = call.peer;
  if (!send && !receive) c.sequence = call.sequence;
  // NCCL's count is what one rank gives or takes; the larger side of these is a part for each rank.
  int64_t all = -1;
  if (call.count < 0 || call.ranks == 0 || __builtin_mul_overflow(call.count, int64_t{call.ranks}, &all)) all = -1;
  const bool takes_all = call.function == "AllGather" || call.function == "AlltoAll" || call.function == "Gather";
  const bool gives_all = call.function == "ReduceScatter" || call.function == "AlltoAll" || call.function == "Scatter";
  c.in_elements = receive ? -1 : gives_all ? all : call.count;
  c.out_elements = send ? -1 : takes_all ? all : call.count;
  return c;
}

std::optional<NcclCall> NcclRanges::call_of(std::string_view name, std::string_view arguments) {
  if (name.starts_with("nccl")) name.remove_prefix(4);
  const RangeFields fields = fields_of(arguments);
  if (fields.communicator && fields.ranks) {   // it is made here
    communicators_[*fields.communicator] = {small(fields.rank, -1), small(fields.ranks, 0)};
    return std::nullopt;
  }
  constexpr std::array kFunctions = {"AllGather", "AllReduce", "AlltoAll", "Bcast",         "Broadcast", "Gather",
                                     "Recv",      "Reduce",    "Scatter",  "ReduceScatter", "Send"};
  const auto function = std::find(kFunctions.begin(), kFunctions.end(), name);
  if (function == kFunctions.end() || !fields.bytes) return std::nullopt;
  NcclCall c;
  c.function = name == "Bcast" ? "Broadcast" : *function;
  c.data_type = "byte";
  c.count = *fields.bytes <= INT64_MAX ? static_cast<int64_t>(*fields.bytes) : -1;
  c.peer = small(fields.peer, -1);
  if (!fields.communicator) return c;
  c.group = fmt::format("{:x}", *fields.communicator);
  if (const auto at = communicators_.find(*fields.communicator); at != communicators_.end())
    c.rank = at->second.rank, c.ranks = at->second.ranks;
  return c;
}

}  // namespace profgpu
