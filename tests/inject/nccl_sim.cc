// Drives a profiler plugin as NCCL does, with no NCCL and no GPU: it opens NCCL_PROFILER_PLUGIN, takes one version of the
// interface, and tells of calls whose kernels ran at times that it makes up. It prints what a recording must have.
//
// The structures are written from NCCL's public headers, apart from those that the plugin uses.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

enum : uint64_t { kGroup = 1, kColl = 2, kP2p = 4, kProxyOp = 8, kKernelCh = 64, kGroupApi = 256, kCollApi = 512, kCeColl = 4096 };

struct Coll {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;  // not in version 4
};
struct P2p {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;  // not in version 4
};
struct KernelCh {
  uint8_t channel;
  uint64_t timer;
};
struct CeColl {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  const char* strategy;
  bool intra;
  uint32_t batch, batches, number;
  void* stream;
};
template <typename Type>
struct Event {
  Type type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    KernelCh kernel;
    CeColl ce;
  };
};
union State {
  size_t bytes;
  uint64_t timer;
};
constexpr int kKernelStop = 22;

struct Options {
  int version = 6;
  int communicators = 1, threads = 1, calls = 10, sends = 0, channels = 2, copy_engine = 0;
  bool kernels = true, late = false, backwards = false, finalize = true, stale = false;
  std::string end = "return";
};

// What the calls are, and when their kernels "ran".
constexpr const char* kFunctions[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast"};
uint64_t start_of(uint64_t number, int channel) { return 1'000'000'000'000 + number * 1'000'000 + static_cast<uint64_t>(channel) * 10; }
uint64_t end_of(uint64_t number, int channel) { return start_of(number, 0) + 250'000 - static_cast<uint64_t>(channel) * 7; }

struct Pending {
  void* handle;
  uint64_t number;
};

// The interface of one version. `Api` is what differs: the type's width, and the order of init's arguments.
template <typename Type>
class Session {
 public:
  using Descriptor = Event<Type>;
  using Start = int (*)(void*, void**, Descriptor*);
  struct Plugin {
    const char* name;
    void* init;
    Start start;
    int (*stop)(void*);
    int (*state)(void*, int, State*);
    int (*finalize)(void*);
  };
  Session(void* symbol, const Options& options) : plugin_(*static_cast<Plugin*>(symbol)), options_(options) {}

  void run(int communicator) {
    void* context = nullptr;
    int mask = 0;
    if (open(&context, &mask, communicator) != 0 || (mask & kColl) == 0) {
      fprintf(stderr, "nccl-sim: the plugin does not want collectives (mask %d)\n", mask);
      return;
    }
    std::vector<Pending> pending;
    for (int i = 0; i < options_.calls; ++i) {
      call(context, communicator, i, pending);
      if (!options_.late) settle(context, pending);
    }
    for (int i = 0; i < options_.sends; ++i) send(context, i, pending);
    for (int i = 0; i < options_.copy_engine; ++i) copies(context, i);
    settle(context, pending);
    if (options_.stale) use_stale(context);
    if (options_.finalize) plugin_.finalize(context);
  }

 private:
  int open(void** context, int* mask, int communicator) {
    const uint64_t hash = 0xabcdef0000000000u + static_cast<uint64_t>(communicator);
    const std::string name = "tp" + std::to_string(communicator);
    if constexpr (sizeof(Type) == 1) {
      using Init = int (*)(void**, int*, const char*, uint64_t, int, int, int, void*);
      return reinterpret_cast<Init>(plugin_.init)(context, mask, name.c_str(), hash, 1, 8, 3, nullptr);
    } else {
      using Init = int (*)(void**, uint64_t, int*, const char*, int, int, int, void*);
      return reinterpret_cast<Init>(plugin_.init)(context, hash, mask, name.c_str(), 1, 8, 3, nullptr);
    }
  }
  Descriptor event(uint64_t type, void* parent) const {
    Descriptor e;
    memset(static_cast<void*>(&e), 0, sizeof e);
    e.type = static_cast<Type>(type);
    e.parent = parent;
    e.rank = 3;
    return e;
  }
  void* start(void* context, Descriptor& e) {
    void* handle = nullptr;
    plugin_.start(context, &handle, &e);
    return handle;
  }

  void call(void* context, int communicator, int i, std::vector<Pending>& pending) {
    Descriptor group = event(sizeof(Type) == 1 ? kGroup : kGroupApi, nullptr);
    void* const group_handle = start(context, group);
    Descriptor e = event(kColl, group_handle);
    // The text of names is NCCL's and stays; that of the type is made anew each time, to find out who keeps pointers.
    std::string type = "ncclFloat16";
    e.coll = {static_cast<uint64_t>(i), kFunctions[i % 4], nullptr, nullptr, 1024u + static_cast<size_t>(i), i % 4 == 3 ? 2 : 0,
              type.c_str(), static_cast<uint8_t>(options_.channels), 16, "RING", "SIMPLE", nullptr};
    void* const handle = start(context, e);
    Descriptor proxy = event(kProxyOp, handle);  // nobody asked for it, and newer versions of NCCL send what they like
    if (void* unwanted = start(context, proxy)) plugin_.stop(unwanted);
    plugin_.stop(handle);
    if (group_handle != nullptr) plugin_.stop(group_handle);
    pending.push_back({handle, static_cast<uint64_t>(communicator) * 1'000'000 + static_cast<uint64_t>(i)});
  }
  void send(void* context, int i, std::vector<Pending>& pending) {
    Descriptor e = event(kP2p, nullptr);
    e.p2p = {i % 2 == 0 ? "Send" : "Recv", nullptr, "ncclInt8", 4096, 5, static_cast<uint8_t>(options_.channels), nullptr};
    void* const handle = start(context, e);
    plugin_.stop(handle);
    pending.push_back({handle, 900'000 + static_cast<uint64_t>(i)});
  }
  void copies(void* context, int i) {
    Descriptor e = event(kCeColl, nullptr);
    e.ce.sequence = static_cast<uint64_t>(i), e.ce.function = "AllGather", e.ce.count = 77, e.ce.type = "ncclFloat32";
    if (void* handle = start(context, e)) plugin_.stop(handle);
  }

  // Kernels are reported later, on a thread of NCCL's.
  void settle(void* context, std::vector<Pending>& pending) {
    if (!options_.kernels || pending.empty()) return;
    std::thread([&] {
      for (size_t i = 0; i < pending.size(); ++i)
        kernels(context, pending[options_.backwards ? pending.size() - 1 - i : i]);
    }).join();
    pending.clear();
  }
  void kernels(void* context, const Pending& p) {
    std::vector<void*> channels;
    for (int c = 0; c < options_.channels; ++c) {
      Descriptor e = event(kKernelCh, p.handle);
      e.kernel = {static_cast<uint8_t>(c), start_of(p.number, c)};
      channels.push_back(start(context, e));
    }
    for (int c = options_.channels; c-- > 0;) {
      State state;
      state.timer = end_of(p.number, c);
      plugin_.state(channels[static_cast<size_t>(c)], kKernelStop, &state);
      plugin_.stop(channels[static_cast<size_t>(c)]);
    }
  }
  // Handles of events that are long over, and of none.
  void use_stale(void* context) {
    std::vector<Pending> pending;
    call(context, 0, 0, pending);
    std::vector<Pending> copy = pending;
    settle(context, pending);
    for (int i = 0; i < 3; ++i) kernels(context, copy[0]), plugin_.stop(copy[0].handle);
    plugin_.stop(nullptr);
    plugin_.state(nullptr, kKernelStop, nullptr);
  }

  Plugin& plugin_;
  const Options& options_;
};

Options read_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? atoi(argv[++i]) : 0; };
    if (word == "--version") o.version = number();
    else if (word == "--communicators") o.communicators = number();
    else if (word == "--threads") o.threads = number();
    else if (word == "--calls") o.calls = number();
    else if (word == "--sends") o.sends = number();
    else if (word == "--channels") o.channels = number();
    else if (word == "--copy-engine") o.copy_engine = number();
    else if (word == "--no-kernels") o.kernels = false;
    else if (word == "--late") o.late = true;
    else if (word == "--backwards") o.late = o.backwards = true;
    else if (word == "--no-finalize") o.finalize = false;
    else if (word == "--stale") o.stale = true;
    else if (word == "--end" && i + 1 < argc) o.end = argv[++i];
    else fprintf(stderr, "nccl-sim: %s: not understood\n", word.c_str()), exit(2);
  }
  return o;
}

template <typename Type>
void drive(void* symbol, const Options& o) {
  std::vector<std::thread> threads;
  for (int t = 0; t < o.threads; ++t)
    threads.emplace_back([&, t] {
      Session<Type> session(symbol, o);
      for (int c = t; c < o.communicators; c += o.threads) session.run(c);
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = read_options(argc, argv);
  const char* const path = getenv("NCCL_PROFILER_PLUGIN");
  void* const library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* const symbol = library != nullptr ? dlsym(library, ("ncclProfiler_v" + std::to_string(o.version)).c_str()) : nullptr;
  if (symbol == nullptr) return fprintf(stderr, "nccl-sim: no plugin of version %d: %s\n", o.version, dlerror()), 1;
  if (o.version == 4) drive<uint8_t>(symbol, o);
  else drive<uint64_t>(symbol, o);
  // NCCL closes the library with its last communicator.
  if (o.finalize) dlclose(library);
  printf("{\"simulated\": true, \"pid\": %d, \"collectives\": %d, \"sends\": %d}\n", getpid(),
         o.communicators * (o.calls + (o.stale ? 1 : 0) + (o.version >= 6 ? o.copy_engine : 0)), o.communicators * o.sends);
  fflush(stdout);
  if (o.end == "kill") kill(getpid(), SIGKILL);
  if (o.end == "_exit") _exit(0);
  return 0;
}
