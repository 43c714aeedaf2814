#include "watch/live/kineto_daemon.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "analyse/report/document.h"
#include "base/clock.h"
#include "base/json_quoted.h"
#include "watch/live/recording_control.h"

namespace profgpu {
namespace {

constexpr size_t kHeaderBytes = 40, kTypeBytes = 32, kMaxBytes = 1 << 16;
constexpr int32_t kActivities = 2, kMaxPids = 1024;
// Programs poll every five seconds. For a common start, all must have polled and had time to prepare.
constexpr int64_t kAllHavePolled_ns = 7'000'000'000, kPrepare_ms = 3'000;
constexpr int kDynologAnswers_s = 5;
constexpr int32_t kMaxAnswer = 1 << 20;

struct Request {
  sockaddr_un from{};
  socklen_t from_bytes = 0;
  ucred sender{};
  std::string type, body;
};

std::optional<Request> receive(int fd) {
  Request r;
  char bytes[kMaxBytes];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec part{bytes, sizeof bytes};
  msghdr message{};
  message.msg_name = &r.from;
  message.msg_namelen = sizeof r.from;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < static_cast<ssize_t>(kHeaderBytes) || (message.msg_flags & MSG_TRUNC) != 0) return std::nullopt;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (!head || head->cmsg_type != SCM_CREDENTIALS || head->cmsg_len < CMSG_LEN(sizeof(ucred))) return std::nullopt;
  std::memcpy(&r.sender, CMSG_DATA(head), sizeof r.sender);
  if (r.sender.uid != ::geteuid() && ::geteuid() != 0) return std::nullopt;
  r.from_bytes = message.msg_namelen;
  r.type.assign(bytes + 8, ::strnlen(bytes + 8, kTypeBytes));
  r.body.assign(bytes + kHeaderBytes, static_cast<size_t>(n) - kHeaderBytes);
  return r;
}

void reply(int fd, const Request& to, const std::string& body) {
  std::string bytes(kHeaderBytes, '\0');
  const uint64_t size = body.size();
  std::memcpy(bytes.data(), &size, sizeof size);
  std::memcpy(bytes.data() + 8, to.type.data(), std::min(to.type.size(), kTypeBytes - 1));
  bytes += body;
  // Failure means that the program has gone.
  ::sendto(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to.from),
           to.from_bytes);
}

void reply_nothing(int fd, const Request& to) {
  if (to.type == "ctxt") reply(fd, to, std::string("\1\0\0\0", 4));  // one program on its device
  if (to.type == "req") reply(fd, to, "");
}

// nullopt if none came, or one that must not be answered.
std::optional<Request> next_request(int fd, int64_t until_ns) {
  constexpr int64_t kLongest_ms = 1'000;
  pollfd waiting{fd, POLLIN, 0};
  const int64_t left_ms = std::max<int64_t>(until_ns - monotonic_ns(), 0) / 1'000'000 + 1;
  if (::poll(&waiting, 1, static_cast<int>(std::min(left_ms, kLongest_ms))) <= 0) return std::nullopt;
  return receive(fd);
}

int32_t number_at(const std::string& body, size_t at) {
  int32_t n = 0;
  std::memcpy(&n, body.data() + at, sizeof n);
  return n;
}

// The program's pid and its ancestors', if it polls for traces of activities.
std::vector<int64_t> polling_pids(const Request& r) {
  constexpr size_t kFixed = 16;  // type, n, job
  if (r.type != "req" || r.body.size() < kFixed || (number_at(r.body, 0) & kActivities) == 0) return {};
  const int32_t n = number_at(r.body, 4);
  if (n < 1 || n > kMaxPids || r.body.size() < kFixed + 4 * static_cast<size_t>(n)) return {};
  std::vector<int64_t> pids;
  for (int32_t i = 0; i < n; ++i) pids.push_back(number_at(r.body, kFixed + 4 * static_cast<size_t>(i)));
  return pids;
}

// A length (4 bytes) and a JSON text, each way.
std::optional<std::string> ask_dynolog(int fd, const std::string& text) {
  const auto length = static_cast<int32_t>(text.size());
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  int32_t answer_length = 0;
  const auto receive_all = [&](void* out, size_t size) {
    return ::recv(fd, out, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  };
  if (write_all(fd, bytes + text) != 0 || !receive_all(&answer_length, sizeof answer_length)) return std::nullopt;
  if (answer_length < 0 || answer_length > kMaxAnswer) return std::nullopt;
  std::string answer(static_cast<size_t>(answer_length), '\0');
  return receive_all(answer.data(), answer.size()) ? std::optional(answer) : std::nullopt;
}

}  // namespace

std::string torch_trace_config(const TorchTraceRequest& request, int64_t start_unix_ms) {
  std::string out = "ACTIVITIES_LOG_FILE=" + request.trace_path + "\n";
  if (request.steps > 0) {
    // Rounded up to tens for several programs, so that those a few steps apart start with the same one.
    out += "PROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=" + std::string(start_unix_ms > 0 ? "10" : "1") +
           "\nACTIVITIES_ITERATIONS=" + std::to_string(request.steps) + "\n";
  } else {
    out += "PROFILE_START_TIME=" + std::to_string(start_unix_ms) +
           "\nACTIVITIES_DURATION_MSECS=" + std::to_string(request.duration_ms) + "\n";
  }
  out += "ACTIVITIES_WARMUP_PERIOD_SECS=1\n";
  for (const auto& [detail, key] : {std::pair{"shapes", "PROFILE_REPORT_INPUT_SHAPES"},
                                    {"stacks", "PROFILE_WITH_STACK"},
                                    {"memory", "PROFILE_PROFILE_MEMORY"},
                                    {"modules", "PROFILE_WITH_MODULES"},
                                    {"flops", "PROFILE_WITH_FLOPS"}})
    if (std::find(request.details.begin(), request.details.end(), detail) != request.details.end())
      out += std::string(key) + "=true\n";
  return out;
}

Result<std::optional<KinetoDaemon>> KinetoDaemon::listen(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return Error{std::string("cannot create a UNIX socket: ") + std::strerror(errno)};
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The name includes a NUL at both ends: clients use exactly these bytes.
  const size_t length = std::min(name.size(), sizeof address.sun_path - 2);
  std::memcpy(address.sun_path + 1, name.data(), length);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length + 1);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0)
    return std::optional(KinetoDaemon(std::move(socket)));
  if (errno == EADDRINUSE) return std::optional<KinetoDaemon>();
  return Error{"cannot bind the socket " + name + ": " + std::strerror(errno)};
}

std::vector<int64_t> KinetoDaemon::deliver(const TorchTraceRequest& request, int64_t timeout_ns) {
  std::vector<int64_t> informed;
  std::string config;
  int64_t until_ns = monotonic_ns() + timeout_ns;
  while (monotonic_ns() < until_ns) {
    const auto poll = next_request(socket_.get(), until_ns);
    if (!poll) continue;
    const std::vector<int64_t> pids = polling_pids(*poll);
    const bool own = !pids.empty() && (poll->sender.pid == request.pid || pids[0] == request.pid);
    const bool wanted = own || std::find(pids.begin(), pids.end(), request.pid) != pids.end();
    // What starts the programs may have imported PyTorch too, and then polls as they do.
    if (!wanted || std::find(informed.begin(), informed.end(), pids[0]) != informed.end() ||
        is_launcher(poll->sender.pid)) {
      reply_nothing(socket_.get(), *poll);
      continue;
    }
    if (informed.empty()) {
      // A single program starts at once; several when all have polled.
      const int64_t now_ms = unix_ns() / 1'000'000;
      config = torch_trace_config(request, own ? 0 : now_ms + kAllHavePolled_ns / 1'000'000 + kPrepare_ms);
      until_ns = own ? 0 : monotonic_ns() + kAllHavePolled_ns;
    }
    reply(socket_.get(), *poll, config);
    informed.push_back(pids[0]);
  }
  return informed;
}

void KinetoDaemon::answer(int64_t for_ns) {
  for (const int64_t until_ns = monotonic_ns() + for_ns; monotonic_ns() < until_ns;)
    if (const auto poll = next_request(socket_.get(), until_ns)) reply_nothing(socket_.get(), *poll);
}

Result<std::vector<int64_t>> deliver_through_dynolog(const TorchTraceRequest& request, int port) {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{kDynologAnswers_s, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Error{
        "another program has the socket dynolog, and no dynolog daemon answers on port " + std::to_string(port),
        "another `profgpu attach PID torch` may be running; retry when it is done"};
  const auto answer = ask_dynolog(
      socket.get(), fmt::format(R"({{"fn":"setKinetOnDemandRequest","config":{},"job_id":{},"pids":[{}],)"
                                R"("process_limit":1024}})",
                                json_quoted(torch_trace_config(request, 0)), request.job, request.pid));
  if (!answer) return Error{"the dynolog daemon did not answer"};
  const auto value = value_from_json(*answer);
  const Record* record = value ? value->record() : nullptr;
  const List* triggered = record ? record->at("activityProfilersTriggered").list() : nullptr;
  if (!triggered) return Error{"unexpected answer from the dynolog daemon: " + answer->substr(0, 200)};
  std::vector<int64_t> pids;
  for (const Value& v : *triggered)
    if (const int64_t* pid = v.integer()) pids.push_back(*pid);
  return pids;
}

}  // namespace profgpu
