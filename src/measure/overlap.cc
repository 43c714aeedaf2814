// overlap: how much a product and an all-reduce slow each other on the same devices, and which share of one the other
// hides.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyse/rank/collectives.h"
#include "measure/benchmark.h"
#include "measure/collective_calls.h"
#include "measure/cublas_library.h"

namespace profgpu {
namespace {

constexpr int64_t kSide = 8192;                        // of the product
constexpr int64_t kMessage = int64_t{64} << 20;
constexpr double kMargin = 2;                          // what goes on beside lasts so much longer, and two calls more

/// Products in a side stream of each device, all-reduces in its own.
struct Pairing {
  World world;
  std::vector<cuda::SideStream> streams;
  std::vector<std::unique_ptr<cublas::Product>> products;

  Status put_products(int64_t count) const {
    for (size_t i = 0; i < products.size(); ++i) {
      Status status = world.devices[i]->use();
      for (int64_t c = 0; c < count && status; ++c) status = products[i]->multiply(streams[i].get());
      if (!status) return status;
    }
    return ok();
  }
  Status put_collectives(int64_t count) const {
    return put_calls(world, collective_forms()[0], static_cast<size_t>(world.buffer_bytes), true, count);
  }
  Status wait_for_products() const {
    for (size_t i = 0; i < streams.size(); ++i) {
      Status status = world.devices[i]->use();
      if (status) status = world.devices[i]->api.wait_for_stream(streams[i].get());
      if (!status) return status;
    }
    return ok();
  }
  [[nodiscard]] int64_t now_ns() const { return world.devices.front()->now_ns(); }
};

Status open_pairing(Bench& bench, Pairing& p) {
  const auto nccl = nccl::Library::open();
  if (!nccl) return nccl.error();
  const auto cublas = cublas::Library::open(bench.hip());
  if (!cublas) return cublas.error();
  p.world.library = *nccl;
  bench.each_device([&](BenchDevice& d) { p.world.devices.push_back(d.cuda.get()); });
  if (p.world.devices.size() < 2) return Error{"overlap needs two GPUs"};
  if (const Status opened = p.world.open_devices(); !opened) return opened;
  if (const Status allocated = p.world.allocate(kMessage, 0); !allocated) return allocated;
  for (const cuda::Device* d : p.world.devices) {
    if (const Status current = d->use(); !current) return current;
    auto stream = cuda::SideStream::make(*d);
    if (!stream) return stream.error();
    auto product = cublas::Product::make(*cublas, *d, *cublas::product_kind("bf16"), {kSide, kSide, kSide});
    if (!product) return product.error();
    p.streams.push_back(std::move(*stream)), p.products.push_back(std::move(*product));
  }
  return ok();
}

// By the host's clock, from the first call until all devices have done what `wait` waits for. `beside` goes on
// meanwhile, and is waited for afterwards.
TimedRun timed(const Pairing& p, std::function<Status(int64_t)> beside, std::function<Status(int64_t)> put,
          std::function<Status()> wait) {
  return [&p, beside, put, wait](int64_t calls) -> Result<double> {
    Status status = beside(calls);
    const int64_t begin_ns = p.now_ns();
    if (status) status = put(calls);
    if (status) status = wait();
    const int64_t end_ns = p.now_ns();
    if (const Status all = p.wait_for_products(); status && !all) status = all;
    if (const Status all = wait_for_world(p.world); status && !all) status = all;
    if (!status) return status.error();
    return static_cast<double>(end_ns - begin_ns);
  };
}

Figure figure_of(const Bench& bench, const Pairing& p, std::string name, std::string label, std::string unit = "ns") {
  Figure f = bench.figure(std::move(name), std::move(label), nullptr, std::move(unit));
  f.ranks = static_cast<int64_t>(p.world.ranks);
  return f;
}

// So many of the one last as long as `calls` of the other.
int64_t count_for(double ns, double each_ns) { return std::max<int64_t>(1, std::llround(ns / each_ns)); }

std::string_view ending(int64_t n) { return n == 1 ? "" : "s"; }

void hidden_share(Bench& bench, const Pairing& p, double product_ns, double collective_ns) {
  // As much of both as makes them equally long: then the most can be hidden.
  const int64_t products = count_for(collective_ns, product_ns), collectives = count_for(product_ns, collective_ns);
  const auto both = bench.measure(
      figure_of(bench, p, "both", fmt::format("{} GEMM{} and {} all-reduce{} at once", products, ending(products),
                                       collectives, ending(collectives))), 0,
      timed(p, [](int64_t) { return ok(); },
            [&](int64_t calls) {
              const Status put = p.put_collectives(calls * collectives);
              return put ? p.put_products(calls * products) : put;
            },
            [&] {
              const Status done = p.wait_for_products();
              return done ? wait_for_world(p.world) : done;
            }));
  if (!both) return;
  const double product_sum = product_ns * static_cast<double>(products);
  const double collective_sum = collective_ns * static_cast<double>(collectives);
  const double shorter = std::min(product_sum, collective_sum);
  const auto hidden = [&](double ns) {
    return std::clamp(100 * (product_sum + collective_sum - ns) / shorter, 0.0, 100.0);
  };
  Figure f = *both;
  f.name = "hidden", f.label = "share of the shorter that the other hides", f.unit = "%";
  f.value = hidden(both->value), f.best = hidden(both->best);
  // The time's interquartile range, as a share of the shorter.
  if (f.value > 0) f.spread_pct = both->spread_pct * both->value * 100 / (shorter * f.value);
  if (f.value > 0) bench.add(std::move(f));
  else bench.miss(f, {"nothing is hidden: together they take as long as one after the other"});
}

void run_overlap(Bench& bench) {
  if (bench.devices.size() < 2)
    return bench.miss(bench.figure("", ""), {"overlap needs two GPUs"}, MissKind::kSkipped);
  bench.begin(bench.figure("", "connecting the devices"));
  Pairing p;
  if (const Status opened = open_pairing(bench, p); !opened) return bench.miss(bench.figure("", ""), opened.error());
  const cublas::ProductShape shape{kSide, kSide, kSide};
  const double operations = shape.operations() / 1e3;
  const double traffic = static_cast<double>(p.world.buffer_bytes) *
                         bus_factor("all_reduce", static_cast<int64_t>(p.world.ranks));
  const auto products = [&p](int64_t count) { return p.put_products(count); };
  const auto collectives = [&p](int64_t count) { return p.put_collectives(count); };
  const auto nothing = [](int64_t) { return ok(); };
  const auto products_done = [&p] { return p.wait_for_products(); };
  const auto collectives_done = [&p] { return wait_for_world(p.world); };
  const auto alone = bench.measure(figure_of(bench, p, "product", "bf16 8192³ alone", "TFLOP/s"), operations,
                                   timed(p, nothing, products, products_done));
  const auto reduced = bench.measure(figure_of(bench, p, "collective", "all-reduce 64 MiB alone, busbw", "GB/s"),
                                     traffic, timed(p, nothing, collectives, collectives_done));
  if (!alone || !reduced) return;
  const double product_ns = operations / alone->value, collective_ns = traffic / reduced->value;
  const auto longer = [](int64_t calls, double ns, double beside_ns) {
    return static_cast<int64_t>(std::ceil(kMargin * static_cast<double>(calls) * ns / beside_ns)) + 2;
  };
  bench.measure(figure_of(bench, p, "product_beside", "bf16 8192³ beside all-reduces", "TFLOP/s"), operations,
                timed(p, [&](int64_t n) { return p.put_collectives(longer(n, product_ns, collective_ns)); }, products,
                      products_done));
  bench.measure(figure_of(bench, p, "collective_beside", "all-reduce 64 MiB beside GEMMs, busbw", "GB/s"), traffic,
                timed(p, [&](int64_t n) { return p.put_products(longer(n, collective_ns, product_ns)); }, collectives,
                      collectives_done));
  hidden_share(bench, p, product_ns, collective_ns);
}

}  // namespace

extern const Benchmark kOverlap{
    .name = "overlap",
    .summary = "how much GEMMs and all-reduces slow each other, and what can be hidden",
    .run = run_overlap,
};

}  // namespace profgpu
