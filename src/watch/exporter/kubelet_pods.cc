#include "watch/exporter/kubelet_pods.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/protobuf.h"
#include "base/steady_unix.h"
#include "devices/drm_card.h"
#include "devices/system_files.h"

#ifdef PROFGPU_HTTP2
#include <nghttp2/nghttp2.h>

namespace profgpu {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int kPoll_ms = 100;
constexpr size_t kPrefixBytes = 5;  // of a message: whether it is compressed, and its length
constexpr size_t kLongestText = 200;

// What the other side sends is shown on terminals.
std::string plain(std::string_view text) {
  std::string out(text.substr(0, kLongestText));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

std::string_view text_of(const uint8_t* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

class Exchange {
 public:
  explicit Exchange(const GrpcCall& call) : call_(call) {}
  ~Exchange() { nghttp2_session_del(session_); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Result<std::string> run(const std::stop_token& stop) {
    if (Status s = connect(); !s) return s.error();
    if (Status s = submit(); !s) return s.error();
    const int64_t end_ns = monotonic_ns() + call_.limit.count() * kMs;
    while (!closed_) {
      if (stop.stop_requested()) return Error{"canceled"};
      if (monotonic_ns() >= end_ns)
        return Error{fmt::format("does not answer within {:g} s", static_cast<double>(call_.limit.count()) * 1e-3)};
      if (Status s = go_on(); !s) return s.error();
    }
    return answer();
  }

 private:
  Status connect();
  Status submit();
  Status go_on();
  Status send_some();
  Status receive_some();
  Result<std::string> answer();
  void take_header(std::string_view name, std::string_view value);
  bool take_data(std::string_view data);

  const GrpcCall& call_;
  Descriptor socket_;
  nghttp2_session* session_ = nullptr;
  std::string unsent_, body_, http_status_, status_, status_text_, problem_;
  uint32_t http2_error_ = 0;
  bool closed_ = false;
};

Status Exchange::connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  static_assert(sizeof address.sun_path == kLongestSocketPath);
  if (call_.socket.size() >= sizeof address.sun_path) return Error{"the socket's path is too long"};
  std::memcpy(address.sun_path, call_.socket.data(), call_.socket.size());
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return ok();
  const bool refused = errno == EACCES || errno == EPERM;
  // EAGAIN: the other side does not accept connections any more.
  const char* why = errno == EAGAIN ? "does not answer" : std::strerror(errno);
  return Error{fmt::format("{}: {}", call_.socket, why), refused ? "the kubelet's socket is root's" : ""};
}

void Exchange::take_header(std::string_view name, std::string_view value) {
  if (name == ":status") http_status_ = value;
  if (name == "grpc-status") status_ = value;
  if (name == "grpc-message") status_text_ = plain(value);
}

bool Exchange::take_data(std::string_view data) {
  if (data.size() > kPrefixBytes + call_.most_bytes - body_.size()) {
    problem_ = fmt::format("answers with more than {} MB", call_.most_bytes >> 20);
    return false;
  }
  body_ += data;
  return true;
}

Status Exchange::submit() {
  nghttp2_session_callbacks* callbacks = nullptr;
  if (nghttp2_session_callbacks_new(&callbacks) != 0) return Error{"no memory for a request"};
  nghttp2_session_callbacks_set_on_header_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size, const uint8_t* value,
                    size_t value_size, uint8_t, void* self) {
        static_cast<Exchange*>(self)->take_header(text_of(name, name_size), text_of(value, value_size));
        return 0;
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      callbacks, [](nghttp2_session*, uint8_t, int32_t, const uint8_t* data, size_t size, void* self) {
        return static_cast<Exchange*>(self)->take_data(text_of(data, size)) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      callbacks, [](nghttp2_session*, int32_t, uint32_t error, void* self) {
        static_cast<Exchange*>(self)->http2_error_ = error;
        static_cast<Exchange*>(self)->closed_ = true;
        return 0;
      });
  nghttp2_session_callbacks_set_error_callback2(
      callbacks, [](nghttp2_session*, int, const char* text, size_t size, void* self) {
        std::string& problem = static_cast<Exchange*>(self)->problem_;
        if (problem.empty()) problem = "does not speak HTTP/2: " + plain({text, size});
        return 0;
      });
  const int made = nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);

  const auto header = [](std::string_view name, std::string_view value) {
    return nghttp2_nv{reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
                      NGHTTP2_NV_FLAG_NONE};
  };
  const std::array headers = {header(":method", "POST"),       header(":scheme", "http"),
                              header(":path", call_.method),   header(":authority", "localhost"),
                              header("te", "trailers"),        header("content-type", "application/grpc"),
                              header("user-agent", "profgpu")};
  // An empty message is only its prefix, which is all zero.
  nghttp2_data_provider message{};
  message.read_callback = [](nghttp2_session*, int32_t, uint8_t* out, size_t, uint32_t* flags, nghttp2_data_source*,
                             void*) -> ssize_t {
    std::memset(out, 0, kPrefixBytes);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return kPrefixBytes;
  };
  if (made != 0 || nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0) != 0 ||
      nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(), &message, nullptr) < 0)
    return Error{"no memory for a request"};
  return ok();
}

Status Exchange::send_some() {
  if (unsent_.empty()) {
    const uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    if (size < 0) return Error{nghttp2_strerror(static_cast<int>(size))};
    unsent_.assign(text_of(data, static_cast<size_t>(size)));
  }
  if (unsent_.empty()) return ok();
  const ssize_t sent = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
  if (sent >= 0) unsent_.erase(0, static_cast<size_t>(sent));
  // The other side may have answered before it closed the connection.
  if (sent < 0 && errno == EPIPE) unsent_.clear();
  else if (sent < 0 && errno != EAGAIN && errno != EINTR) return Error{std::strerror(errno)};
  return ok();
}

Status Exchange::receive_some() {
  std::array<uint8_t, 1 << 14> bytes;
  const ssize_t size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (size == 0) return Error{"closes the connection without an answer"};
  if (size < 0) return errno == EAGAIN || errno == EINTR ? ok() : Error{std::strerror(errno)};
  const ssize_t read = nghttp2_session_mem_recv(session_, bytes.data(), static_cast<size_t>(size));
  if (!problem_.empty()) return Error{problem_};
  if (read < 0) return Error{fmt::format("does not speak HTTP/2: {}", nghttp2_strerror(static_cast<int>(read)))};
  return ok();
}

Status Exchange::go_on() {
  if (Status s = send_some(); !s) return s;
  const bool more = !unsent_.empty() || nghttp2_session_want_write(session_);
  if (!more && !nghttp2_session_want_read(session_)) return Error{"ends the connection without an answer"};
  pollfd ready{socket_.get(), static_cast<short>(POLLIN | (more ? POLLOUT : 0)), 0};
  ::poll(&ready, 1, kPoll_ms);
  return (ready.revents & ~POLLOUT) != 0 ? receive_some() : ok();
}

Result<std::string> Exchange::answer() {
  if (http2_error_ != 0) return Error{fmt::format("breaks off: {}", nghttp2_http2_strerror(http2_error_))};
  if (http_status_ != "200") return Error{fmt::format("answers with HTTP status {}", plain(http_status_))};
  if (status_ != "0") {
    const std::string status = status_.empty() ? "none" : plain(status_);
    return Error{
        fmt::format("answers with gRPC status {}{}{}", status, status_text_.empty() ? "" : ": ", status_text_)};
  }
  if (body_.size() < kPrefixBytes) return Error{"answers without a message"};
  if (body_[0] != 0) return Error{"answers compressed, which was not requested"};
  uint32_t size = 0;
  for (size_t i = 1; i < kPrefixBytes; ++i) size = size << 8 | static_cast<uint8_t>(body_[i]);
  if (size != body_.size() - kPrefixBytes) return Error{"answers with a truncated message"};
  body_.erase(0, kPrefixBytes);
  return std::move(body_);
}

}  // namespace

Result<std::string> grpc_call(const GrpcCall& call, const std::stop_token& stop) { return Exchange(call).run(stop); }

}  // namespace profgpu

#else

profgpu::Result<std::string> profgpu::grpc_call(const GrpcCall&, const std::stop_token&) {
  return Error{"cannot be queried: this program was built without libnghttp2"};
}

#endif

namespace profgpu {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHold_ns = 300 * kSecond;
// Ten readings of the devices, within these bounds.
constexpr int64_t kReadingsBetween = 10, kShortest_ns = 1 * kSecond, kLongest_ns = 10 * kSecond;

constexpr size_t kMaxContainers = 64;  // of one device: each may be a copy of its series
constexpr size_t kLongestName = 256;    // bytes; Kubernetes allows 253

// NVML writes the PCI domain with eight digits, the kernel and device plugins with four.
std::string kernel_pci(const std::string& pci) {
  return pci.starts_with("0000") && pci.find(':') == 8 ? pci.substr(4) : pci;
}

// The device's ids in device plugins. NVIDIA's: the UUID, for MIG before driver 470 "MIG-GPU-…/7/0"; Google's:
// "nvidia0", "nvidia0/gi7"; AMD's: the PCI address.
std::vector<std::string> ids_of(const DeviceInfo& d, const std::vector<DeviceInfo>& all) {
  std::vector<std::string> ids{d.uuid};
  const bool nvidia = d.vendor == "NVIDIA";
  if (!d.gpu_instance) {
    ids.push_back(kernel_pci(d.pci_bus_id));
    if (nvidia) ids.push_back(fmt::format("nvidia{}", d.index));
    return ids;
  }
  ids.push_back(fmt::format("nvidia{}/gi{}", d.index, *d.gpu_instance));
  if (d.parent && *d.parent < all.size())
    ids.push_back(fmt::format("MIG-{}/{}/{}", all[*d.parent].uuid, *d.gpu_instance, d.compute_instance.value_or(0)));
  return ids;
}

// Calls `each` for every text of that field, until it returns false. False: the message is broken, or `each` stopped.
template <class Each>
bool each_text(std::string_view message, uint32_t field, const Each& each) {
  ProtobufReader reader(message);
  while (reader.next())
    if (reader.field() == field && !each(reader.text())) return false;
  return !reader.broken();
}

// The last one counts, as the format requires.
std::string_view text_of(std::string_view message, uint32_t field) {
  std::string_view found;
  each_text(message, field, [&](std::string_view text) {
    found = text;
    return true;
  });
  return found;
}

}  // namespace

struct PodResources::Grant {
  std::string_view name_space, pod, container, id;
};

PodResources::PodResources(const std::vector<DeviceInfo>& devices, const std::string& sys) : count_(devices.size()) {
  for (size_t i = 0; i < devices.size(); ++i)
    for (std::string& id : ids_of(devices[i], devices))
      if (!id.empty()) positions_.emplace(std::move(id), i);
  // Intel's plugin: the card's name in sysfs.
  for (const DrmCard& card : drm_cards(sys, "8086", {"i915", "xe"}))
    if (const auto found = positions_.find(card.pci); found != positions_.end())
      positions_.emplace(card.name, found->second);
}

void PodResources::add(const Grant& grant, PodsByDevice& pods) const {
  std::string_view id = grant.id, share;
  // Shares of one device: of NVIDIA's plugin, of Google's, of AMD's.
  for (const std::string_view separator : {"::", "/vgpu", "-slice-"})
    if (const size_t at = id.rfind(separator); at != id.npos) {
      share = id.substr(at + separator.size());
      id = id.substr(0, at);
      break;
    }
  if (id.starts_with("card")) id = id.substr(0, id.find('-'));  // Intel: "card0-0", also for whole devices
  const auto [from, to] = positions_.equal_range(id);
  const size_t longest = std::max({grant.name_space.size(), grant.pod.size(), grant.container.size(), share.size()});
  if (from == to || longest > kLongestName) return;
  const PodContainer container{std::string(grant.name_space), std::string(grant.pod), std::string(grant.container),
                               std::string(share)};
  for (auto at = from; at != to; ++at) {
    std::vector<PodContainer>& on = pods[at->second];
    const auto next = std::lower_bound(on.begin(), on.end(), container);
    if (next != on.end() && *next == container) continue;
    on.insert(next, container);
    if (on.size() > kMaxContainers) on.pop_back();  // keeps the same ones, whatever the kubelet's order
  }
}

Result<PodsByDevice> PodResources::read(std::string_view list) const {
  PodsByDevice pods(count_);
  Grant grant;
  // k8s.io/kubelet/pkg/apis/podresources/v1: a list has pods (1), which have a name (1), a namespace (2) and containers
  // (3), which have a name (1) and devices (2), which have a resource's name (1) and ids (2). A name may come after
  // what it names.
  const bool whole = each_text(list, 1, [&](std::string_view pod) {
    grant.pod = text_of(pod, 1);
    grant.name_space = text_of(pod, 2);
    return each_text(pod, 3, [&](std::string_view container) {
      grant.container = text_of(container, 1);
      return each_text(container, 2, [&](std::string_view devices) {
        return each_text(devices, 2, [&](std::string_view id) {
          grant.id = id;
          add(grant, pods);
          return true;
        });
      });
    });
  });
  if (!whole) return Error{"its list of pods is damaged"};
  return pods;
}

std::string KubeletAnswers::take(Result<PodsByDevice> answer, int64_t now_ns) {
  const bool was_well = trouble_.empty();
  if (answer) {
    pods_ = *std::move(answer);
    good_at_ns_ = now_ns;
    trouble_.clear();
    return was_well ? "" : "the kubelet answers again";
  }
  trouble_ = answer.error().message;
  if (!was_well) return "";
  trouble_since_ns_ = now_ns;
  const std::string& hint = answer.error().hint;
  return fmt::format("the kubelet: {}{}{}{}", trouble_, hint.empty() ? "" : " (", hint, hint.empty() ? "" : ")");
}

std::string KubeletAnswers::take_absence(const std::string& socket, int64_t now_ns) {
  if (good_at_ns_ == 0 && trouble_.empty()) return "";
  return take(Error{socket + " is gone"}, now_ns);
}

const PodsByDevice* KubeletAnswers::pods(int64_t now_ns) const {
  return good_at_ns_ != 0 && now_ns - good_at_ns_ <= kHold_ns ? &pods_ : nullptr;
}

std::string KubeletAnswers::trouble(int64_t now_ns) const {
  if (trouble_.empty()) return "";
  return fmt::format("{}, for {} s", trouble_, std::max<int64_t>(0, now_ns - trouble_since_ns_) / kSecond);
}

KubeletPods::KubeletPods(std::string socket, const std::vector<DeviceInfo>& devices, int64_t interval_ns,
                         std::function<void(const std::string&)> tell)
    : socket_(std::move(socket)),
      resources_(devices, SystemRoots::from_environment().sys),
      interval_ns_(std::clamp(interval_ns * kReadingsBetween, kShortest_ns, kLongest_ns)),
      tell_(std::move(tell)) {}

void KubeletPods::start() {
  poller_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      poll(stop);
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, stop, std::chrono::nanoseconds(interval_ns_), [] { return false; });
    }
  });
}

void KubeletPods::stop() { poller_ = {}; }

KubeletAnswers KubeletPods::answers() const {
  std::lock_guard lock(mutex_);
  return answers_;
}

void KubeletPods::poll(const std::stop_token& stop) {
  std::string news;
  if (::access(socket_.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    std::lock_guard lock(mutex_);
    news = answers_.take_absence(socket_, steady_unix_ns());
  } else {
    auto list = grpc_call({.socket = socket_, .method = "/v1.PodResourcesLister/List"}, stop);
    if (stop.stop_requested()) return;
    auto pods = list ? resources_.read(*list) : list.error();
    std::lock_guard lock(mutex_);
    news = answers_.take(std::move(pods), steady_unix_ns());
  }
  if (!news.empty()) tell_(news);
}

}  // namespace profgpu
