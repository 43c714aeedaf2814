#include "inject/cupti_kinds.h"

#include <stdio.h>

#include "inject/cupti_decode.h"

namespace profgpu::inject::cupti {

namespace {

// Kinds in the order in which they are enabled. Without `must` the recording goes on where CUPTI refuses it.
struct WantedKind {
  Kind kind;
  bool must;
  const char* what;
};
constexpr WantedKind kWanted[] = {
    {kDevice, false, "devices"},
    {kContext, false, "contexts"},
    {kConcurrentKernel, true, "kernels"},
    {kMemcpy, true, "copies"},
    {kMemcpyPeer, false, "copies between devices"},
    {kMemset, false, "memory sets"},
    {kRuntime, false, "calls of the CUDA runtime"},
    {kDriver, false, "calls of the CUDA driver"},
    {kSynchronization, false, "synchronisation"},
    {kOverhead, false, "the profiler's own overhead"},
    {kMemory2, false, "allocations"},
    {kExternalCorrelation, false, "frameworks' own numbers of calls"},
    {kGraphTrace, false, "whole graph launches"},
};

// Leaves out calls that are of no use, where CUPTI can; else the decoder does.
Result enable(const Calls& calls, Kind kind) {
  if (kind == kDriver && calls.ActivityEnableDriverApi != nullptr) {
    Result result = kSuccess;
    for (const uint32_t cbid : work_calls())
      if (const Result r = calls.ActivityEnableDriverApi(cbid, 1); r != kSuccess) result = r;
    return result;
  }
  const Result result = calls.ActivityEnable(kind);
  if (kind == kRuntime && result == kSuccess && calls.ActivityEnableRuntimeApi != nullptr)
    for (const uint32_t cbid : chatter()) calls.ActivityEnableRuntimeApi(cbid, 0);
  return result;
}

}  // namespace

void disable_kinds(const Calls& calls) {
  if (calls.ActivityEnableDriverApi != nullptr)
    for (const uint32_t cbid : work_calls()) calls.ActivityEnableDriverApi(cbid, 0);
  for (const WantedKind& w : kWanted) calls.ActivityDisable(w.kind);
}

bool enable_kinds(const Calls& calls, bool whole_graphs, bool tell, char* reason, size_t size) {
  Result refused[sizeof kWanted / sizeof *kWanted] = {};
  for (const WantedKind& w : kWanted) {
    if (w.kind == kGraphTrace && !whole_graphs) continue;
    const Result result = enable(calls, w.kind);
    refused[&w - kWanted] = result;
    if (result == kSuccess || !w.must) continue;
    disable_kinds(calls);
    snprintf(reason, size, "CUPTI refuses to record %s: error %d%s", w.what, result,
             result == kInsufficientPrivileges ? " (the driver allows it to administrators only)" : "");
    return false;
  }
  // Only now: where nothing is recorded, it does not matter what else would be missing.
  for (const WantedKind& w : kWanted) {
    const Result result = refused[&w - kWanted];
    if (!tell || result == kSuccess) continue;
    char sentence[120];
    snprintf(sentence, sizeof sentence, "CUPTI does not record %s: error %d", w.what, result);
    note(wire::Severity::kWarning, sentence);
  }
  return true;
}

}  // namespace profgpu::inject::cupti
