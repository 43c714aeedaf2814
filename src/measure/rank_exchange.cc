#include "measure/rank_exchange.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/environment.h"
#include "base/launcher.h"
#include "base/text.h"
#include "devices/host_process.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

constexpr int64_t kMillisecond_ns = 1'000'000;
constexpr int64_t kHello_ns = 5'000'000'000;     // for a connection to say which rank it is
constexpr uint32_t kMaxMessage = 1 << 20;
constexpr int kMaxRanks = 1 << 16;
constexpr int kFirstPort = 20'000, kPorts = 10'000;   // below those that Linux gives to outgoing connections
constexpr std::string_view kGreeting = "profgpu bench 1";

std::optional<int> number(const char* name) {
  const auto n = whole_number(environment(name));
  return n && *n >= 0 && *n <= kMaxRanks ? std::optional(static_cast<int>(*n)) : std::nullopt;
}
// What names a job, by launcher as in base/launcher.h. mpirun within a Slurm job: only some of its ranks have Slurm's.
constexpr std::initializer_list<const char*> kJobVariables[] = {
    {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
    {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
    {"PMI_JOBID"},
    {"PMI_JOBID"},
    {"SLURM_JOB_ID", "SLURM_STEP_ID"}};
static_assert(std::size(kJobVariables) == std::size(kRankVariables));

// Of the first launcher that says both, see base/launcher.h.
size_t launcher_index() {
  for (size_t i = 0; i < std::size(kRankVariables); ++i)
    if (number(kRankVariables[i]) && number(kWorldSizeVariables[i])) return i;
  return std::size(kRankVariables);
}

int milliseconds_until(int64_t until_ns) {
  return static_cast<int>(std::clamp<int64_t>((until_ns - monotonic_ns()) / kMillisecond_ns + 1, 0, 1000));
}

// Waits for the descriptor. False: time is up.
bool ready(int fd, short events, int64_t until_ns) {
  while (monotonic_ns() < until_ns) {
    pollfd p{fd, events, 0};
    if (::poll(&p, 1, milliseconds_until(until_ns)) > 0) return true;
  }
  return false;
}

enum class Transfer { kDone, kLate, kClosed };

Transfer receive(int fd, char* to, size_t bytes, int64_t until_ns) {
  while (bytes > 0) {
    if (!ready(fd, POLLIN, until_ns)) return Transfer::kLate;
    const ssize_t got = ::recv(fd, to, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return Transfer::kClosed;
    to += got, bytes -= static_cast<size_t>(got);
  }
  return Transfer::kDone;
}

Transfer send_bytes(int fd, std::string_view bytes, int64_t until_ns) {
  while (!bytes.empty()) {
    if (!ready(fd, POLLOUT, until_ns)) return Transfer::kLate;
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) return Transfer::kClosed;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return Transfer::kDone;
}

// A message is its length in four bytes and its text.
std::string framed(std::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  return out.append(text);
}

Transfer receive_message(int fd, std::string& text, int64_t until_ns) {
  uint32_t size = 0;
  Transfer got = receive(fd, reinterpret_cast<char*>(&size), sizeof size, until_ns);
  if (got != Transfer::kDone) return got;
  if (size > kMaxMessage) return Transfer::kClosed;
  text.resize(size);
  return receive(fd, text.data(), size, until_ns);
}

struct SocketAddress {
  sockaddr_storage at{};
  socklen_t size = 0;
};

// In the abstract name space: no file is left behind. The user's number keeps users apart.
SocketAddress local_address(const std::string& job) {
  SocketAddress a;
  auto* unix_address = reinterpret_cast<sockaddr_un*>(&a.at);
  unix_address->sun_family = AF_UNIX;
  const std::string name =
      fmt::format("profgpu-bench-{}-{:016x}", ::getuid(), std::hash<std::string>()(job));
  std::memcpy(unix_address->sun_path + 1, name.data(), name.size());
  a.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return a;
}

std::vector<SocketAddress> addresses_of(const std::string& host, int port) {
  std::vector<SocketAddress> all;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return all;
  for (const addrinfo* a = found; a; a = a->ai_next) {
    SocketAddress& one = all.emplace_back();
    std::memcpy(&one.at, a->ai_addr, a->ai_addrlen), one.size = a->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return all;
}

// Of this host, the ones that others may reach first.
std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return {"127.0.0.1"};
  for (const ifaddrs* i = found; i; i = i->ifa_next) {
    if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) continue;
    char text[NI_MAXHOST] = "";
    const socklen_t size = i->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(i->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) all.emplace_back(text);
  }
  ::freeifaddrs(found);
  std::ranges::stable_partition(all, [](const std::string& a) { return a != "127.0.0.1" && a != "::1"; });
  return all;
}

Descriptor connected(const SocketAddress& to, int64_t until_ns) {
  Descriptor fd(::socket(to.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.at), to.size) == 0) return fd;
  if (errno != EINPROGRESS || !ready(fd.get(), POLLOUT, until_ns)) return Descriptor();
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 ? std::move(fd) : Descriptor();
}

void send_at_once(int fd) {
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);   // fails for a local socket: it needs none
}

// Where rank 0 is; it may have written nothing yet.
std::vector<SocketAddress> targets(const LaunchedRank& launched, const std::string& file) {
  if (file.empty())
    return launched.one_host ? std::vector{local_address(launched.job)} : addresses_of(launched.address, launched.port);
  std::vector<SocketAddress> all;
  const std::string text = file_text(file, kMaxMessage).value_or("");
  for (const std::string_view line : pieces_of(text, '\n')) {
    const size_t blank = line.find(' ');
    const auto port = whole_number(line.substr(std::min(blank, line.size())).substr(blank < line.size() ? 1 : 0));
    if (blank != line.npos && port && *port < 65'536)
      for (const SocketAddress& a : addresses_of(std::string(line.substr(0, blank)), static_cast<int>(*port)))
        all.push_back(a);
  }
  return all;
}

Status write_address(const std::string& file, int port) {
  std::string text;
  for (const std::string& address : own_addresses()) text += fmt::format("{} {}\n", address, port);
  const std::string part = fmt::format("{}.{}", file, ::getpid());
  FILE* out = std::fopen(part.c_str(), "w");
  const bool written = out && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  const bool closed = out && std::fclose(out) == 0;
  if (written && closed && std::rename(part.c_str(), file.c_str()) == 0) return ok();
  const Error error{fmt::format("{}: {}", file, std::strerror(errno)),
                    "--rendezvous needs a path in a folder that all ranks can write and read"};
  (void)std::remove(part.c_str());
  return error;
}

}  // namespace

std::string first_host(std::string_view list) {
  const std::string_view first = list.substr(0, list.find_first_of(",["));
  if (first.size() == list.size() || list[first.size()] == ',') return std::string(first);
  const std::string_view rest = list.substr(first.size() + 1);
  const std::string_view index = rest.substr(0, rest.find_first_of(",-]"));
  const size_t end = rest.find(']');
  const std::string_view after = end == rest.npos ? "" : rest.substr(end + 1);
  return fmt::format("{}{}{}", first, index, after.substr(0, after.find(',')));
}

std::optional<LaunchedRank> launched_rank() {
  const size_t launcher = launcher_index();
  if (launcher == std::size(kRankVariables)) return std::nullopt;
  const bool slurm = std::string_view(kRankVariables[launcher]) == "SLURM_PROCID";
  LaunchedRank l;
  l.rank = *number(kRankVariables[launcher]), l.ranks = *number(kWorldSizeVariables[launcher]);
  const auto local_rank = number(kLocalRankVariables[launcher]);
  l.local_known = local_rank.has_value(), l.local_rank = local_rank.value_or(l.rank);
  // Outside of srun, a batch script has the variables of tasks that it has not started.
  if (slurm) l.ranks = number("SLURM_STEP_NUM_TASKS").value_or(1);
  if (l.ranks < 2 || l.rank >= l.ranks) return std::nullopt;
  for (const char* local : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"})
    l.one_host = l.one_host || number(local) == l.ranks;
  if (slurm) l.one_host = number("SLURM_STEP_NUM_NODES") == 1;
  for (const char* part : kJobVariables[launcher])
    if (const std::string text = environment(part); !text.empty()) l.job += text + "/";
  // A launcher that says nothing of the job is the parent of its ranks.
  if (l.job.empty()) l.job = std::to_string(::getppid());
  l.address = environment("MASTER_ADDR");
  const auto job = static_cast<int>(std::hash<std::string>()(l.job) % kPorts);
  l.port = kFirstPort + job;
  if (slurm && l.address.empty()) l.address = first_host(environment("SLURM_STEP_NODELIST"));
  return l;
}

Result<std::unique_ptr<RankExchange>> RankExchange::connect(const LaunchedRank& launched, const std::string& file,
                                                            int64_t patience_ns) {
  if (file.empty() && !launched.one_host && launched.address.empty())
    return Error{"the launcher does not say where rank 0 is",
                 "name a file that all ranks see with --rendezvous FILE, or set MASTER_ADDR"};
  std::unique_ptr<RankExchange> e(new RankExchange(launched, patience_ns));
  // The file names the job. Without a launcher's name it would be the parent, which differs by host.
  if (!file.empty()) e->launched_.job = "file";
  const int64_t until_ns = monotonic_ns() + patience_ns;
  const Status status = launched.rank == 0 ? e->listen(file, until_ns) : e->reach(file, until_ns);
  if (!status) return status.error();
  return e;
}

RankExchange::~RankExchange() {
  if (!file_.empty()) (void)std::remove(file_.c_str());
}

std::string RankExchange::hello() const {
  return fmt::format("{}\n{}\n{}\n{}\n{}", kGreeting, launched_.job, launched_.ranks, launched_.rank, host_name());
}

Status RankExchange::listen(const std::string& file, int64_t until_ns) {
  const bool local = file.empty() && launched_.one_host;
  SocketAddress at;
  if (local) {
    at = local_address(launched_.job);
  } else {
    auto* any = reinterpret_cast<sockaddr_in6*>(&at.at);
    any->sin6_family = AF_INET6, any->sin6_addr = in6addr_any;
    any->sin6_port = htons(static_cast<uint16_t>(file.empty() ? launched_.port : 0));
    at.size = sizeof *any;
  }
  Descriptor door(::socket(at.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!door && !local) {   // a host without IPv6
    auto* any = reinterpret_cast<sockaddr_in*>(&at.at);
    at = {}, any->sin_family = AF_INET, any->sin_port = htons(static_cast<uint16_t>(file.empty() ? launched_.port : 0));
    at.size = sizeof *any;
    door = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  const int on = 1;
  if (!local) (void)::setsockopt(door.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!door || ::bind(door.get(), reinterpret_cast<const sockaddr*>(&at.at), at.size) != 0 ||
      ::listen(door.get(), SOMAXCONN) != 0)
    return Error{fmt::format("rank 0 cannot listen for the others{}: {}",
                             local || !file.empty() ? "" : fmt::format(" on port {}", launched_.port),
                             std::strerror(errno)),
                 "name a file that all ranks see with --rendezvous FILE"};
  if (!file.empty()) {
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    (void)::getsockname(door.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    // The port is at the same place in both families' addresses.
    const int port = ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
    if (const Status written = write_address(file, port); !written) return written;
    file_ = file;
  }
  return accept_all(door, until_ns);
}

Status RankExchange::accept_all(const Descriptor& door, int64_t until_ns) {
  peers_.resize(static_cast<size_t>(launched_.ranks));
  hosts_.resize(peers_.size());
  hosts_[0] = host_name();
  int missing_ranks = launched_.ranks - 1;
  std::string text;
  while (missing_ranks > 0) {
    if (!ready(door.get(), POLLIN, until_ns)) return Error{missing("did not come")};
    Descriptor peer(::accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer || receive_message(peer.get(), text, std::min(until_ns, monotonic_ns() + kHello_ns)) != Transfer::kDone)
      continue;
    const std::vector<std::string_view> lines = pieces_of(text, '\n');
    if (lines.size() != 5 || lines[0] != kGreeting || lines[1] != launched_.job) continue;
    const auto rank = whole_number(lines[3]);
    if (lines[2] != std::to_string(launched_.ranks) || !rank || *rank < 1 || *rank >= launched_.ranks) continue;
    const auto at = static_cast<size_t>(*rank);
    if (peers_[at]) continue;
    send_at_once(peer.get());
    hosts_[at] = lines[4], peers_[at] = std::move(peer);
    --missing_ranks;
  }
  return ok();
}

std::string RankExchange::missing(std::string_view what) const {
  std::vector<std::string> ranks;
  for (size_t i = 1; i < peers_.size(); ++i)
    if (!peers_[i]) ranks.push_back(hosts_[i].empty() ? std::to_string(i) : fmt::format("{} ({})", i, hosts_[i]));
  const size_t shown = std::min<size_t>(ranks.size(), 8), all = ranks.size();
  ranks.resize(shown);
  return fmt::format("rank{} {}{} {} within {} s", all > 1 ? "s" : "", joined(ranks),
                     all > shown ? fmt::format(" and {} more", all - shown) : "", what, patience_ns_ / 1'000'000'000);
}

Status RankExchange::reach(const std::string& file, int64_t until_ns) {
  while (monotonic_ns() < until_ns) {
    for (const SocketAddress& to : targets(launched_, file)) {
      Descriptor fd = connected(to, std::min(until_ns, monotonic_ns() + kHello_ns));
      if (!fd || send_bytes(fd.get(), framed(hello()), until_ns) != Transfer::kDone) continue;
      send_at_once(fd.get());
      peers_.push_back(std::move(fd));
      return ok();
    }
    // Rank 0 does not listen yet.
    (void)::poll(nullptr, 0, 20);
  }
  return Error{fmt::format("rank 0 was not reached within {} s", patience_ns_ / 1'000'000'000)};
}

Result<std::vector<std::string>> RankExchange::gather(std::string_view mine) {
  if (failed_) return *failed_;
  auto all = exchange(mine);
  if (!all) failed_ = all.error();
  return all;
}

Result<std::vector<std::string>> RankExchange::exchange(std::string_view mine) {
  const int64_t until_ns = monotonic_ns() + patience_ns_;
  const auto count = static_cast<size_t>(launched_.ranks);
  std::vector<std::string> all(count);
  if (launched_.rank != 0) {
    const Error gone{"rank 0 ended, or was not heard of in time"};
    if (peers_.empty() || send_bytes(peers_[0].get(), framed(mine), until_ns) != Transfer::kDone) return gone;
    for (std::string& text : all)
      // Rank 0 is patient with others first.
      if (receive_message(peers_[0].get(), text, until_ns + patience_ns_) != Transfer::kDone) return gone;
    return all;
  }
  all[0] = mine;
  for (size_t i = 1; i < count; ++i) {
    const Transfer got = receive_message(peers_[i].get(), all[i], until_ns);
    if (got == Transfer::kDone) continue;
    return Error{fmt::format("rank {} ({}) {}", i, hosts_[i],
                             got == Transfer::kLate
                                 ? fmt::format("did not answer within {} s", patience_ns_ / 1'000'000'000)
                                 : "ended before it answered")};
  }
  std::string out;
  for (const std::string& text : all) out += framed(text);
  for (size_t i = 1; i < count; ++i)
    if (send_bytes(peers_[i].get(), out, until_ns) != Transfer::kDone)
      return Error{fmt::format("rank {} ({}) ended before it answered", i, hosts_[i])};
  return all;
}

}  // namespace profgpu
