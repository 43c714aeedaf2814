// Sizes and factors are those of nccl-tests (its PERFORMANCE.md): S is the buffer of one rank for all-reduce, the whole
// (n parts) for all-gather and reduce-scatter, one rank's whole buffer for all-to-all.
#include "analyse/collectives.h"

#include <algorithm>

#include "analyse/collective_calls.h"

namespace profgpu {
namespace {

using std::string_view;

// Letters only, lower case: "_allgather_base", "nccl:all_gather" and "AllGather" compare alike.
std::string letters(string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') out.push_back(static_cast<char>(c + 32));
    if (c >= 'a' && c <= 'z') out.push_back(c);
  }
  return out;
}

}  // namespace

std::string collective_name(string_view recorded) {
  const std::string text = letters(recorded);
  constexpr std::pair<string_view, string_view> kNames[] = {
      {"crossdevicereduce", "all_reduce"},   // vLLM's custom all-reduce
      {"allreduce", "all_reduce"},     {"allgather", "all_gather"},   {"reducescatter", "reduce_scatter"},
      {"alltoall", "all_to_all"},      {"broadcast", "broadcast"},    {"barrier", "barrier"},
      {"sendrecv", "send_recv"},       {"gather", "gather"},          {"scatter", "scatter"},
      {"reduce", "reduce"},            {"send", "send"},              {"recv", "recv"}};
  for (const auto& [part, name] : kNames)
    if (text.find(part) != text.npos) return std::string(name);
  return "";
}

int dtype_bytes(string_view dtype) {
  const size_t at = dtype.rfind("::");
  const std::string text = letters(at == dtype.npos ? dtype : dtype.substr(at + 2));
  if (dtype.find("64") != dtype.npos) return 8;
  if (dtype.find("32") != dtype.npos) return 4;
  if (dtype.find("16") != dtype.npos) return 2;
  if (dtype.find('8') != dtype.npos) return 1;
  if (text == "double" || text == "long" || text == "longint") return 8;
  if (text == "float" || text == "int") return 4;
  if (text == "half" || text == "bfloat" || text == "short") return 2;
  if (text == "byte" || text == "char" || text == "bool" || text == "signedchar" || text == "unsignedchar") return 1;
  return 0;
}

std::optional<int64_t> message_bytes(const Collective& c, string_view name, string_view dtype) {
  const int element_bytes = dtype_bytes(dtype);
  if (element_bytes == 0) return std::nullopt;
  int64_t elements = std::max(c.in_elements, c.out_elements);
  if (name == "all_reduce" || name == "reduce" || name == "all_to_all" || name == "send") elements = c.in_elements;
  if (name == "recv") elements = c.out_elements;
  // The whole is n parts where only the part was recorded.
  const bool part_only = (name == "all_gather" && c.out_elements < 0) || (name == "reduce_scatter" && c.in_elements < 0);
  if (part_only && (c.group_size <= 0 || __builtin_mul_overflow(elements, int64_t{c.group_size}, &elements)))
    return std::nullopt;
  int64_t bytes = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, static_cast<int64_t>(element_bytes), &bytes)) return std::nullopt;
  return bytes;
}

double bus_factor(string_view name, int64_t n) {
  if (n < 1) return 1;
  const auto ranks = static_cast<double>(n);
  if (name == "all_reduce") return 2 * (ranks - 1) / ranks;
  if (name == "all_gather" || name == "reduce_scatter" || name == "all_to_all") return (ranks - 1) / ranks;
  return 1;
}

std::vector<CollectiveRow> CollectiveRow::rows(const Facts& facts) { return facts.get<Collectives>().rows; }

Collectives Collectives::compute(const Facts& facts) {
  return {rated(facts.get<CollectiveCalls>(), facts.get<MetCalls>().calls)};
}

}  // namespace profgpu
