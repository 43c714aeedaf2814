// Collectives of one rank, by name, type, group and size.
#pragma once

#include <optional>

#include "analyse/facts.h"
#include "report/document.h"

namespace profgpu {

struct CollectiveRow {
  std::string name;             ///< nccl-tests' terms: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast ...
  std::string dtype;
  int64_t group_size = 0;       ///< 0: unknown
  std::string process_group;
  int64_t calls = 0;
  std::optional<int64_t> message_bytes;  ///< S of one call, as nccl-tests defines it
  int64_t total_ns = 0;         ///< union of the kernels' time
  int64_t exposed_ns = 0;       ///< of it, where no compute runs
  std::optional<double> algbw_gbps;
  std::optional<double> busbw_gbps;
  std::optional<int64_t> wait_ns;  ///< from this rank's arrivals to the last ranks'
  bool wait_is_lower_bound = false; ///< not all ranks of all calls are in hand
  int64_t measured_calls = 0;   ///< those whose kernel begins in a step that averages are over
  int64_t measured_ns = 0;      ///< union of these

  template <class V>
  void fields(V&& v) const {
    v("name", name), v("dtype", unless_empty(dtype)), v("group_size", only_if(group_size > 0, group_size));
    v("process_group", unless_empty(process_group)), v("calls", calls), v("message_bytes", message_bytes);
    v("total_ns", total_ns), v("exposed_ns", exposed_ns), v("algbw_gbps", algbw_gbps), v("busbw_gbps", busbw_gbps);
    v("wait_ns", wait_ns), v("wait_is_lower_bound", only_if(wait_ns.has_value(), wait_is_lower_bound));
  }
  static std::vector<CollectiveRow> rows(const Facts& facts);
};

/// What the ranks in hand say of one call of this rank.
struct MetCall {
  ActivityId activity;
  int64_t wait_ns = 0;       ///< from its arrival to the last one's
  int64_t transfer_ns = 0;   ///< from the last arrival to the end
  bool whole_group = false;  ///< all ranks of the group are in hand; else later ones may be missing
  int latest_rank = -1;      ///< who arrived last; -1: not known
  int64_t collective = -1;   ///< number that calls of one and the same collective have in common; -1: none
};

/// Calls of this rank that others' traces show as well. Known where several ranks are analysed together (analyse_job).
struct MetCalls {
  std::vector<MetCall> calls;   ///< by activity
  static MetCalls compute(const Facts&) { return {}; }
};

struct Collectives {
  std::vector<CollectiveRow> rows;   ///< longest first, then name, dtype, size
  static Collectives compute(const Facts& facts);
};

/// nccl-tests' term for a recorded collective name or kernel name; empty if it is none.
std::string collective_name(std::string_view recorded);
/// Bytes of one element of a PyTorch dtype name ("BFloat16", "Float", "c10::Half"...); 0: unknown.
int dtype_bytes(std::string_view dtype);
/// nccl-tests' S of one call, from the elements that a rank puts in and gets out; `name` as collective_name() gives it.
std::optional<int64_t> message_bytes(const Collective& call, std::string_view name, std::string_view dtype);
/// busbw = algbw times this, n ranks (nccl-tests' PERFORMANCE.md).
double bus_factor(std::string_view name, int64_t n);

}  // namespace profgpu
