// What cuda-sim is told to do.
#pragma once

#include <cstdint>
#include <string>

struct Options {
  int64_t kernels = 1000, names = 12, streams = 2, devices = 1, threads = 1;
  int64_t kernel_ns = 1000;  ///< each; the k-th name takes k percent more
  int64_t rate = 0;          ///< kernels a second; 0: as fast as it can
  int64_t copies = 0, copy_bytes = 1 << 20, peer_copies = 0, sets = 0, set_bytes = 4096;
  int64_t syncs = 0, allocations = 0, hot_calls = 0, overheads = 0, external = 0, failures = 0;
  int64_t graphs = 0, graph_nodes = 10;
  int64_t steps = 0, step_kernels = 40, step_us = 0;
  int64_t window_first = -1, window_last = -1;  ///< steps around which cudaProfilerStart and Stop are called
  int64_t rival_first = -1, rival_last = -1;    ///< steps in which another profiler records
  int64_t rival_clock = 1, rival_finalize = 0;
  int64_t clock_jump_ns = 0;                    ///< of CUPTI's, after half of the kernels, or of the steps
  int64_t clock_set_ns = 0;                     ///< the machine's is off by so much from half of the steps on
  int64_t ranks = 0;
  int64_t repeat_ms = 0;  ///< all again and again for so long
  std::string end = "return";  ///< or exit, _exit, abort, kill
  std::string fork = "no";     ///< before, after, exec: a child beside
  std::string late;            ///< a library opened after cuInit
  std::string meet;            ///< file in which ranks agree when an all-reduce at each step's end ends
  int64_t meet_ns = 200'000;   ///< from when the last one begins
  std::string rival = "librival.so";
  bool driver_launches = false;
};

/// Exits with 2 where the words make no sense.
Options read_options(int argc, char** argv);
