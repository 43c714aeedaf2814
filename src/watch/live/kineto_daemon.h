// Asks running PyTorch programs for a trace of their own, as the daemon of PyTorch's profiler (Kineto) does: programs
// that were started with KINETO_USE_DAEMON ask a socket named "dynolog" every few seconds whether somebody wants one.
//
// Protocol: datagrams on the abstract UNIX socket "\0dynolog\0"; each is a size (8 bytes), a type (32 bytes) and a
// body. `req`: kind of request (bit 2: activities), number of process ids, job, the ids (the program's own first, then
// its ancestors'); the answer's body is the text of a configuration, or empty. The names have no owner, so only
// requests of the same user count, as the kernel states it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

/// The text of the configuration. `start_unix_ms`: 0: as soon as it comes.
std::string torch_trace_config(const TorchTraceRequest& request, int64_t start_unix_ms);

class KinetoDaemon {
 public:
  /// Null if another program has the socket. `name`: "dynolog" but in tests.
  static Result<std::unique_ptr<KinetoDaemon>> listen(const std::string& name = "dynolog");
  ~KinetoDaemon();
  KinetoDaemon(const KinetoDaemon&) = delete;
  KinetoDaemon& operator=(const KinetoDaemon&) = delete;

  /// Waits until the program asks, and tells it. Where `pid` only started others (is_launcher()), they are told to
  /// begin at the same moment. Returns the ids of those told; empty if none has asked in time.
  std::vector<int64_t> deliver(const TorchTraceRequest& request, int64_t timeout_ns);
  /// Goes on to answer for so long, with nothing: a program that was too busy to take its order when it came takes it
  /// with the next answer.
  void answer(int64_t for_ns);

 private:
  explicit KinetoDaemon(int fd) : fd_(fd) {}
  int fd_;
};

/// Has a dynolog daemon on this machine deliver the request. Returns the ids of the programs that it has told.
Result<std::vector<int64_t>> deliver_through_dynolog(const TorchTraceRequest& request, int port = 1778);

}  // namespace profgpu
