// collectives: NCCL over the devices of this machine, or over the ranks that a launcher started. Rates are bus
// bandwidths as nccl-tests define them; results are checked.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <span>

#include "analyse/rank/collectives.h"
#include "analyse/report/quantity.h"
#include "base/text.h"
#include "devices/host_process.h"
#include "measure/benchmark.h"
#include "measure/collective_calls.h"
#include "measure/host_nics.h"
#include "measure/rank_exchange.h"

namespace profgpu {
namespace {

constexpr int64_t kKi = 1 << 10, kMi = 1 << 20;
constexpr int64_t kShortMessages[] = {kKi, kMi, 256 * kMi};
constexpr int64_t kFullMessages[] = {8, kKi, 8 * kKi, 64 * kKi, 512 * kKi, 4 * kMi, 32 * kMi, 256 * kMi, 1024 * kMi};
constexpr int64_t kLatencyMessage = kKi;               // up to here by time, larger ones by their rate
constexpr int64_t kPairMessage = 64 * kMi;
constexpr const char* kWithoutGpus =
    "profgpu.bench.process_group() of the Python package measures gloo or MPI between hosts";
constexpr size_t kAllWays = 8, kAllPairs = 16;         // ranks of which both ways, or all pairs, are measured

/// What all ranks do at once.
struct Order {
  enum What : int64_t { kRun, kCheck, kBarrier, kPair, kEnd };
  int64_t what = kEnd, kind = 0, bytes = 0, in_place = 0, calls = 0, from = 0, to = 0;
};

struct Reply {
  double ns = 0;
  int64_t wrong = 0;
  std::string error;
  std::string others = {};         // what else computes on the rank's device; of all ranks: with the ranks
};

// As messages: the numbers' bytes, since all ranks run the same program.
std::string text_of(const Order& order) {
  return {reinterpret_cast<const char*>(&order), sizeof order};
}
Order order_of(const std::string& text) {
  Order order;
  if (text.size() == sizeof order) std::memcpy(&order, text.data(), sizeof order);
  if (order.kind < 0 || order.kind >= static_cast<int64_t>(collective_forms().size())) order.what = Order::kEnd;
  return order;
}
std::string text_of(const Reply& reply) {
  std::string text(reinterpret_cast<const char*>(&reply.ns), sizeof reply.ns);
  text.append(reinterpret_cast<const char*>(&reply.wrong), sizeof reply.wrong);
  return text + reply.others + '\n' + reply.error;
}
Reply reply_of(const std::string& text) {
  Reply reply;
  constexpr size_t kNumbers = sizeof reply.ns + sizeof reply.wrong;
  const size_t end = text.size() < kNumbers ? text.npos : text.find('\n', kNumbers);
  if (end == text.npos) return {0, 0, "no answer"};
  std::memcpy(&reply.ns, text.data(), sizeof reply.ns);
  std::memcpy(&reply.wrong, text.data() + sizeof reply.ns, sizeof reply.wrong);
  reply.others = text.substr(kNumbers, end - kNumbers), reply.error = text.substr(end + 1);
  return reply;
}

// In five lines, none of which is empty.
std::string description_of(const cuda::Device& d) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", host_name(), d.index, d.uuid.empty() ? "-" : d.uuid, d.name,
                     host_nics().word());
}

/// The ranks: those of this process, and by messages the others.
class Team {
 public:
  Team(Bench& bench, std::unique_ptr<RankExchange> exchange) : bench_(bench), exchange_(std::move(exchange)) {}

  Status connect(std::shared_ptr<nccl::Library> library, int64_t buffer_bytes);
  [[nodiscard]] bool leads() const { return !exchange_ || exchange_->rank() == 0; }
  [[nodiscard]] bool of_processes() const { return exchange_ != nullptr; }
  [[nodiscard]] const World& world() const { return world_; }
  [[nodiscard]] const std::vector<MeasuredRank>& ranks() const { return ranks_; }
  /// What all ranks share: NVLink or PCIe of one machine's devices, or the NICs of the host with the slowest.
  const GroupLink& shared_link();
  [[nodiscard]] bool of_hosts() const { return nics_.size() > 1; }

  /// Of all ranks: the longest time, and all wrong values. The error names the rank that has it.
  Result<Reply> all_do(const Order& order);
  /// Measures how long all take for it. What else computes on the device of any rank is in the figure.
  std::optional<Figure> measure(const Figure& figure, double amount, Order order);
  /// Carries out what rank 0 orders, until it ends.
  void follow();
  void dismiss() {
    if (exchange_ && leads()) (void)gather(text_of(Order{}));
  }

 private:
  Result<std::vector<std::string>> agree(const Status& mine, const std::string& message = "");
  Result<std::vector<std::string>> gather(std::string_view mine) {
    bench_.wait_for_others(true);
    auto all = exchange_->gather(mine);
    bench_.wait_for_others(false);
    return all;
  }
  Status open_world();
  [[nodiscard]] GroupLink link_of_hosts() const;
  [[nodiscard]] GroupLink link_of_devices() const;
  Reply carry_out(const Order& order) const;

  Bench& bench_;
  std::unique_ptr<RankExchange> exchange_;   // null: all ranks are in this process
  World world_;
  std::vector<MeasuredRank> ranks_;          // of processes
  std::map<std::string, HostNics> nics_;     // of their hosts
  std::optional<GroupLink> link_;            // none: not asked yet
  std::optional<Error> broken_;              // why the ranks do not hear of each other any more
};

// All messages, if no rank has an error: "0 message" or "1 error".
Result<std::vector<std::string>> Team::agree(const Status& mine, const std::string& message) {
  if (!exchange_) {
    if (!mine) return mine.error();
    return std::vector<std::string>{message};
  }
  auto all = gather(mine ? "0" + message : "1" + mine.error().message);
  if (!all) return all.error();
  for (size_t r = 0; r < all->size(); ++r) {
    std::string& text = (*all)[r];
    const bool good = text.starts_with('0');
    if (!text.empty()) text.erase(0, 1);
    if (!good)
      return Error{fmt::format("rank {}{}: {}", r,
                               r < ranks_.size() ? fmt::format(" ({})", ranks_[r].host) : "", text),
                   !mine ? mine.error().hint : ""};
  }
  return all;
}

Status Team::open_world() {
  const nccl::Api& api = world_.library->api;
  if (!exchange_) return world_.open_devices();
  world_.ranks = static_cast<size_t>(exchange_->ranks());
  world_.communicators.resize(world_.devices.size());
  nccl::UniqueId id{};
  const Status made = leads() ? api.unique_id(&id) : ok();
  const auto ids = agree(made, std::string(id.bytes.data(), id.bytes.size()));
  if (!ids) return ids.error();
  if ((*ids)[0].size() != id.bytes.size()) return Error{"rank 0 sent no identifier of NCCL"};
  std::ranges::copy((*ids)[0], id.bytes.begin());
  Status joined_all = world_.devices[0]->use();
  if (joined_all)
    joined_all = api.create_rank(world_.communicators.data(), exchange_->ranks(), id, exchange_->rank());
  const auto all = agree(joined_all);
  return all ? ok() : Status(all.error());
}

Status Team::connect(std::shared_ptr<nccl::Library> library, int64_t buffer_bytes) {
  world_.library = std::move(library);
  bench_.each_device([&](BenchDevice& d) { world_.devices.push_back(d.cuda.get()); });
  if (exchange_) {
    world_.devices.resize(std::min<size_t>(world_.devices.size(), 1));
    const cuda::Device* d = world_.devices.empty() ? nullptr : world_.devices[0];
    const auto all = agree(!world_.library ? Status(Error{"no NCCL"}) : d ? ok() : Status(Error{"no GPU"}),
                           d ? description_of(*d) : "");
    if (!all) return all.error();
    for (size_t r = 0; r < all->size(); ++r) {
      const std::vector<std::string_view> parts = pieces_of((*all)[r], '\n');
      if (parts.size() != 5) return Error{fmt::format("rank {} does not say what it is", r)};
      ranks_.push_back({static_cast<int64_t>(r), std::string(parts[0]), std::atoll(std::string(parts[1]).c_str()),
                        std::string(parts[3]), std::string(parts[2])});
      nics_.emplace(std::string(parts[0]), HostNics::of_word(parts[4]));
    }
  }
  if (world_.devices.empty() || (!exchange_ && world_.devices.size() < 2)) return Error{"collectives need two GPUs"};
  if (const Status opened = open_world(); !opened) return opened;
  const size_t first = exchange_ ? static_cast<size_t>(exchange_->rank()) : 0;
  const Status allocated = world_.allocate(buffer_bytes, first);
  const auto all = agree(allocated, std::to_string(world_.buffer_bytes));
  if (!all) return all.error();
  for (const std::string& bytes : *all)
    world_.buffer_bytes = std::min<int64_t>(world_.buffer_bytes, std::atoll(bytes.c_str()));
  return ok();
}

GroupLink Team::link_of_hosts() const {
  GroupLink least;
  for (const auto& [host, nics] : nics_) {
    if (nics.count == 0) return {};
    if (least.gbps && *least.gbps <= nics.gbps) continue;
    least.link = fmt::format("{} NIC{}", nics.count, nics.count == 1 ? "" : "s"), least.gbps = nics.gbps;
  }
  return least;
}

// PCIe is asked again after each figure: a link at rest runs slower.
const GroupLink& Team::shared_link() {
  if (link_ && link_->link != "PCIe") return *link_;
  link_ = of_hosts() ? link_of_hosts() : link_of_devices();
  return *link_;
}

GroupLink Team::link_of_devices() const {
  std::vector<uint32_t> devices;
  if (!exchange_)
    for (const BenchDevice& d : bench_.devices)
      if (!d.lost && d.watched) devices.push_back(*d.watched);
  for (const MeasuredRank& r : ranks_)
    if (const auto at = bench_.watched(r.uuid)) devices.push_back(*at);
  const std::set<uint32_t> each(devices.begin(), devices.end());
  const bool all_known = devices.size() == world_.ranks && each.size() == world_.ranks;
  return all_known ? bench_.link_of_group(devices) : GroupLink{};
}

Reply Team::carry_out(const Order& order) const {
  const CollectiveForm& kind = collective_forms()[static_cast<size_t>(order.kind)];
  const CollectiveForm& all_reduce = collective_forms()[0];
  const auto bytes = static_cast<size_t>(order.bytes);
  const auto small = static_cast<size_t>(message_bytes(1, world_.ranks));
  if (order.what == Order::kCheck) {
    const auto wrong = wrong_values(world_, kind, bytes, order.in_place != 0);
    return wrong ? Reply{0, *wrong, ""} : Reply{0, 0, wrong.error().message};
  }
  // Ranks begin together: messages alone let them go one after another.
  Status done = exchange_ ? make_calls(world_, all_reduce, small, true, 1) : ok();
  const cuda::Device& clock = *world_.devices.front();
  const int64_t begin_ns = clock.now_ns();
  if (done && order.what == Order::kRun) done = make_calls(world_, kind, bytes, order.in_place != 0, order.calls);
  if (order.what == Order::kBarrier)
    for (int64_t i = 0; i < order.calls && done; ++i) done = make_calls(world_, all_reduce, small, true, 1);
  if (done && order.what == Order::kPair)
    done = send_between(world_, static_cast<size_t>(order.from), static_cast<size_t>(order.to), bytes, order.calls);
  if (!done) return {0, 0, done.error().message};
  Figure own = bench_.figure("", "", &clock);
  return {static_cast<double>(clock.now_ns() - begin_ns), 0, "", exchange_ ? bench_.others_on(own) : ""};
}

Result<Reply> Team::all_do(const Order& order) {
  if (!exchange_) {
    Reply reply = carry_out(order);
    if (!reply.error.empty()) return Error{reply.error};
    return reply;
  }
  if (broken_) return *broken_;
  const auto ordered = gather(text_of(order));
  if (!ordered) return broken_ = ordered.error(), *broken_;
  const Reply mine = carry_out(order);
  const auto all = gather(text_of(mine));
  if (!all) return broken_ = all.error(), *broken_;
  Reply sum;
  std::string wrong;
  for (size_t r = 0; r < all->size(); ++r) {
    const Reply one = reply_of((*all)[r]);
    const std::string who = fmt::format("rank {} ({}, GPU {})", r, ranks_[r].host, ranks_[r].device);
    if (!one.error.empty()) return broken_ = Error{who + ": " + one.error}, *broken_;
    sum.ns = std::max(sum.ns, one.ns), sum.wrong += one.wrong;
    const bool takes_part = order.what != Order::kPair || std::cmp_equal(order.from, r) || std::cmp_equal(order.to, r);
    if (takes_part && !one.others.empty()) append_listed(sum.others, fmt::format("{} of rank {}", one.others, r));
    if (one.wrong > 0) append_listed(wrong, who);
  }
  if (sum.wrong > 0) sum.error = wrong;
  return sum;
}

std::optional<Figure> Team::measure(const Figure& figure, double amount, Order order) {
  std::string others;
  auto measured = bench_.measure(figure, amount, [&](int64_t calls) -> Result<double> {
    order.calls = calls;
    auto took = all_do(order);
    if (!took) return took.error();
    if (!took->others.empty()) others = std::move(took->others);
    return took->ns;
  });
  if (!measured || others.empty()) return measured;
  measured->used_by = others;
  bench_.put(*measured);
  return measured;
}

void Team::follow() {
  for (;;) {
    bench_.begin(bench_.figure("", "waiting for rank 0"));
    const auto ordered = gather("");
    if (!ordered) return bench_.miss(bench_.figure("", ""), ordered.error());
    const Order order = order_of(ordered->front());
    if (order.what == Order::kEnd) return;
    if (const auto all = gather(text_of(carry_out(order))); !all)
      return bench_.miss(bench_.figure("", ""), all.error());
  }
}

// What the bus bandwidth cannot exceed without help of switches. Between hosts only rings move as much over the NICs as
// within a host; what else does is not known.
void set_link(Figure& f, std::string_view name, Team& team) {
  constexpr std::array kRings = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"};
  if (team.of_hosts() && std::ranges::count(kRings, name) == 0) return;
  const GroupLink& link = team.shared_link();
  f.link = link.link;
  f.link_gbps = name == "send_recv" ? link.next_gbps : link.gbps;
}

// Small messages by their time, larger ones by their rate.
void collective(Bench& bench, Team& team, int64_t kind, int64_t size, bool in_place) {
  const CollectiveForm& c = collective_forms()[static_cast<size_t>(kind)];
  const auto ranks = static_cast<int64_t>(team.world().ranks);
  const int64_t bytes = message_bytes(size, team.world().ranks);
  const bool rate = size > kLatencyMessage;
  Figure f = bench.figure(fmt::format("{}{}_{}", c.name, in_place ? "_in_place" : "", size),
                                fmt::format("{} {}{}{}", c.label, format_bytes(static_cast<double>(size)),
                                            in_place ? ", in place" : "", rate ? ", busbw" : ""),
                                nullptr, rate ? "GB/s" : "ns");
  f.size = size, f.ranks = ranks;
  if (bytes > team.world().buffer_bytes)
    return bench.miss(f, {"the devices have no memory for such messages", "end what else uses the GPUs"});
  if (!bench.has_time_for(f)) return;
  bench.begin(f);
  Order order{Order::kCheck, kind, bytes, in_place, 0};
  const auto checked = team.all_do(order);
  if (!checked) return bench.miss(f, checked.error());
  if (checked->wrong > 0)
    return bench.miss(f, {fmt::format("{} values of the results are wrong{}", checked->wrong,
                                      checked->error.empty() ? "" : ", on " + checked->error),
                          "a device, a link or NCCL computes wrong numbers: `profgpu doctor` looks for errors"},
                      MissKind::kWrong);
  order.what = Order::kRun;
  const double factor = bus_factor(c.name, ranks);
  const auto amount = static_cast<double>(bytes);
  auto measured = team.measure(f, rate ? amount * factor : 0, order);
  if (!measured) return;
  if (rate) set_link(*measured, c.name, team);
  measured->algbw_gbps = rate ? measured->value / factor : amount / measured->value;
  bench.put(*std::move(measured));
}

void barrier(Bench& bench, Team& team) {
  Figure f = bench.figure("barrier", "barrier: all-reduce of one value, waited for");
  f.ranks = static_cast<int64_t>(team.world().ranks);
  team.measure(f, 0, {Order::kBarrier});
}

// Both ways of each pair, of many ranks one, of very many only neighbors.
std::vector<std::pair<size_t, size_t>> pairs_of(size_t ranks) {
  std::vector<std::pair<size_t, size_t>> all;
  for (size_t a = 0; a < ranks; ++a)
    for (size_t b = ranks <= kAllWays ? 0 : a + 1; b < ranks; ++b)
      if (a != b && (ranks <= kAllPairs || b == a + 1)) all.emplace_back(a, b);
  if (ranks > kAllPairs) all.emplace_back(ranks - 1, 0);
  return all;
}

// Each pair alone, so that the slow one is known.
void pairs(Bench& bench, Team& team) {
  const int64_t size = std::min(kPairMessage, team.world().buffer_bytes);
  const int64_t bytes = message_bytes(size, team.world().ranks);
  for (const auto& [from, to] : pairs_of(team.world().ranks)) {
    Figure f = bench.figure(fmt::format("pair_{}", kPairMessage), "send, one pair alone", nullptr, "GB/s");
    if (team.of_processes()) {
      f.rank = static_cast<int64_t>(from), f.peer_rank = static_cast<int64_t>(to);
      const bool one_host = team.ranks()[from].host == team.ranks()[to].host;
      f.link = one_host ? "within a host" : "between hosts", f.label += ", " + f.link;
    } else {
      f.device = team.world().devices[from]->index, f.peer = team.world().devices[to]->index;
      const auto at = [&](size_t rank) -> const BenchDevice* {
        const cuda::Device* cuda = team.world().devices[rank];
        return first_where(bench.devices, [&](const BenchDevice& d) { return d.cuda.get() == cuda; });
      };
      if (at(from) && at(to)) bench.note_link(f, *at(from), *at(to));
    }
    team.measure(f, static_cast<double>(bytes),
                 {Order::kPair, 0, bytes, 0, 0, static_cast<int64_t>(from), static_cast<int64_t>(to)});
  }
}

void measure_all(Bench& bench, Team& team, std::span<const int64_t> sizes, bool with_in_place) {
  barrier(bench, team);
  for (size_t kind = 0; kind < collective_forms().size(); ++kind)
    for (const bool in_place : {false, true})
      for (const int64_t size : sizes)
        if (!in_place || (with_in_place && collective_forms()[kind].in_place != CollectiveForm::InPlace::kNo))
          collective(bench, team, static_cast<int64_t>(kind), size, in_place);
  pairs(bench, team);
}

void run_collectives(Bench& bench) {
  const Figure all = bench.figure("", "");
  bench.begin(bench.figure("", "connecting the ranks"));
  std::unique_ptr<RankExchange> exchange;
  if (bench.options.launched) {
    bench.wait_for_others(true);
    auto connected = RankExchange::connect(*bench.options.launched, bench.options.rendezvous,
                                           bench.options.patience_ns);
    if (!connected) return bench.miss(all, connected.error());
    exchange = *std::move(connected);
  }
  const Status opened = bench.open();
  if (!exchange && !opened) return bench.miss(all, opened.error());
  if (!exchange && bench.devices.size() < 2)
    return bench.miss(all, {"collectives need two GPUs", kWithoutGpus}, MissKind::kSkipped);
  const auto library = nccl::Library::open();
  if (!exchange && !library) return bench.miss(all, library.error());
  const bool full = bench.options.full;
  const auto sizes = full ? std::span<const int64_t>(kFullMessages) : std::span<const int64_t>(kShortMessages);
  Team team(bench, std::move(exchange));
  bench.begin(bench.figure("", "connecting the devices"));
  if (const Status connected = team.connect(library ? *library : nullptr, sizes.back()); !connected)
    return bench.miss(all, !opened ? opened.error() : !library ? library.error() : connected.error());
  if (!team.leads()) return team.follow();
  for (const MeasuredRank& r : team.ranks()) bench.add(r);
  measure_all(bench, team, sizes, full || !bench.options.names.empty());
  team.dismiss();
}

}  // namespace

extern const Benchmark kNcclCollectives{
    .name = "collectives",
    .summary = "NCCL over the devices of this machine or the ranks of a job: latency, bus bandwidth, checked results",
    .of_devices = false,   // it opens them itself, so that a rank without one is known to the others
    .run = run_collectives,
};

}  // namespace profgpu
