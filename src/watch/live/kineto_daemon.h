// Requests traces from running PyTorch programs, in place of the daemon of PyTorch's profiler (Kineto): programs
// started with KINETO_USE_DAEMON poll a socket named "dynolog" every few seconds for such a request.
//
// Protocol: datagrams on the abstract UNIX socket "\0dynolog\0"; each is a size (8 bytes), a type (32 bytes) and a
// body. `req`: kind of request (bit 2: activities), number of process ids, job, the ids (the program's own first, then
// its ancestors'); the answer's body is the text of a configuration, or empty. Anyone can bind or use these names, so
// only requests of the same user count, by the credentials that the kernel attaches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace profgpu {

struct TorchTraceRequest {
  int64_t pid = 0;         ///< the program, or what started the programs
  int64_t job = 0;         ///< SLURM_JOB_ID of the program; 0: none
  std::string trace_path;  ///< as the program sees it; it writes trace_path with _PID before the ending
  int64_t steps = 0;       ///< 0: by time
  int64_t duration_ms = 0;
  std::vector<std::string> details;  ///< "shapes", "stacks", "memory", "modules", "flops"
};

/// The configuration as text. `start_unix_ms`: 0: on receipt.
std::string torch_trace_config(const TorchTraceRequest& request, int64_t start_unix_ms);

class KinetoDaemon {
 public:
  /// nullopt if another program has the socket. `name`: "dynolog" except in tests.
  static Result<std::optional<KinetoDaemon>> listen(const std::string& name = "dynolog");

  /// Waits for the program to poll and hands it the request. If `pid` only started others (is_launcher()), those get it
  /// and start at the same moment. Returns the pids that got it; empty if none polled in time.
  std::vector<int64_t> deliver(const TorchTraceRequest& request, int64_t timeout_ns);
  /// Sends empty answers for so long: a program that was too busy to act on the request does so at the next answer.
  void answer(int64_t for_ns);

 private:
  explicit KinetoDaemon(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

/// Has a dynolog daemon on this machine deliver the request. Returns the pids that got it.
Result<std::vector<int64_t>> deliver_through_dynolog(const TorchTraceRequest& request, int port = 1778);

}  // namespace profgpu
