#include "cuda_sim_options.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Number {
  const char* name;
  int64_t Options::*member;
};
constexpr Number kNumbers[] = {
    {"kernels", &Options::kernels},         {"names", &Options::names},
    {"streams", &Options::streams},         {"devices", &Options::devices},
    {"threads", &Options::threads},         {"kernel-ns", &Options::kernel_ns},
    {"rate", &Options::rate},               {"copies", &Options::copies},
    {"copy-bytes", &Options::copy_bytes},   {"peer-copies", &Options::peer_copies},
    {"sets", &Options::sets},               {"set-bytes", &Options::set_bytes},
    {"syncs", &Options::syncs},             {"allocations", &Options::allocations},
    {"hot-calls", &Options::hot_calls},     {"overheads", &Options::overheads},
    {"external", &Options::external},       {"failures", &Options::failures},
    {"graphs", &Options::graphs},           {"graph-nodes", &Options::graph_nodes},
    {"steps", &Options::steps},             {"step-kernels", &Options::step_kernels},
    {"step-us", &Options::step_us},         {"rival-clock", &Options::rival_clock},
    {"rival-finalize", &Options::rival_finalize}, {"clock-jump-ns", &Options::clock_jump_ns},
    {"clock-set-ns", &Options::clock_set_ns}, {"ranks", &Options::ranks},
    {"repeat-ms", &Options::repeat_ms},     {"meet-ns", &Options::meet_ns},
};
struct Range {
  const char* name;
  int64_t Options::*first;
  int64_t Options::*last;
};
constexpr Range kRanges[] = {{"profiler", &Options::window_first, &Options::window_last},
                             {"rival-steps", &Options::rival_first, &Options::rival_last}};
struct Text {
  const char* name;
  std::string Options::*member;
};
constexpr Text kTexts[] = {
    {"end", &Options::end}, {"fork", &Options::fork}, {"late", &Options::late}, {"rival", &Options::rival},
    {"meet", &Options::meet}};

bool put(Options& options, const char* name, const char* value) {
  for (const Number& n : kNumbers)
    if (strcmp(n.name, name) == 0) {
      char* end;
      options.*n.member = strtoll(value, &end, 0);
      return end != value && *end == 0;
    }
  for (const Range& r : kRanges)
    if (strcmp(r.name, name) == 0) {
      char* end;
      options.*r.first = strtoll(value, &end, 0);
      if (*end != ':') return false;
      options.*r.last = strtoll(end + 1, &end, 0);
      return *end == 0;
    }
  for (const Text& t : kTexts)
    if (strcmp(t.name, name) == 0) {
      options.*t.member = value;
      return true;
    }
  return false;
}

[[noreturn]] void usage(const char* word) {
  fprintf(stderr, "cuda-sim: %s: not understood. Options, each with a value:", word);
  for (const Number& n : kNumbers) fprintf(stderr, " --%s", n.name);
  for (const Range& r : kRanges) fprintf(stderr, " --%s A:B", r.name);
  for (const Text& t : kTexts) fprintf(stderr, " --%s", t.name);
  fputs(" --driver-launches\n", stderr);
  exit(2);
}

}  // namespace

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--driver-launches") == 0) {
      options.driver_launches = true;
      continue;
    }
    if (strncmp(argv[i], "--", 2) != 0 || i + 1 == argc || !put(options, argv[i] + 2, argv[i + 1])) usage(argv[i]);
    ++i;
  }
  return options;
}
