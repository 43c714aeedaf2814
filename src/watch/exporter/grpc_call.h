// One gRPC request without parameters over a unix socket: HTTP/2 by libnghttp2.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "base/result.h"

namespace profgpu {

struct GrpcCall {
  std::string socket;                      ///< its path, of less than kLongestSocketPath bytes
  std::string method;                      ///< "/v1.PodResourcesLister/List"
  std::chrono::milliseconds limit{5'000};  ///< for all of it
  size_t most_bytes = 16 << 20;            ///< of the answer
};
constexpr size_t kLongestSocketPath = 108;  ///< sockaddr_un's, with a byte for its end

/// The answer's message. Waits, no longer than about a tenth of a second after `stop`. A program that was built without
/// libnghttp2 has no other answer than an error that says so.
Result<std::string> grpc_call(const GrpcCall& call, const std::stop_token& stop);

}  // namespace profgpu
