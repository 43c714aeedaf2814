// For tests: a scenario played by the stand-in library, and the backend that watches it.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/dyn_lib.h"
#include "devices/backend.h"

namespace profgpu {

extern const BackendKind kNvml;

inline void pause_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class NvmlStage : public ::testing::Test {
 protected:
  void SetUp() override { use_library("libnvidia-ml.so.1"); }
  void TearDown() override {
    backend.reset();
    for (const char* name : {"PROFGPU_NVML_LIBRARY", "PROFGPU_NVML_SCENARIO"}) unsetenv(name);
    if (!file_.empty()) unlink(file_.c_str());
  }

  /// Of the folder of stand-ins.
  void use_library(const std::string& name) {
    path_ = std::string(PROFGPU_NVML_STUBS) + "/" + name;
    setenv("PROFGPU_NVML_LIBRARY", path_.c_str(), 1);
  }
  std::string write(const std::string& text) {
    file_ = ::testing::TempDir() + "nvml_scenario_" + std::to_string(getpid());
    std::ofstream(file_) << text;
    return file_;
  }
  Result<std::unique_ptr<Backend>> try_open(const std::string& text, const BackendOptions& options = {}) {
    setenv("PROFGPU_NVML_SCENARIO", write(text).c_str(), 1);
    // Held here too, so that the count of calls outlives the backend.
    auto own = DynLib::open(path_);
    if (own) own_ = std::move(*own);
    if (const auto forget = own_.symbol<void (*)()>("profgpu_stub_reset")) forget();
    return kNvml.open(options);
  }
  void open(const std::string& text, const BackendOptions& options = {}) {
    auto opened = try_open(text, options);
    ASSERT_TRUE(opened) << opened.error().message;
    backend = std::move(*opened);
  }
  void open_file(const std::string& name) {
    std::ifstream in(std::string(PROFGPU_NVML_SCENARIOS) + "/" + name);
    ASSERT_TRUE(in) << name;
    open(std::string(std::istreambuf_iterator<char>(in), {}));
  }

  /// A reading at a monotonic time of our choice, and the present for the driver.
  Reading read(uint32_t device, ReadRequest request, Status* status = nullptr) {
    Reading r;
    r.device = device;
    r.time_ns = unix_ns();
    const Status s = backend->read(request, r);
    if (status) *status = s;
    else EXPECT_TRUE(s) << (s ? "" : s.error().message);
    return r;
  }
  Reading read_all(uint32_t device = 0) { return read(device, {monotonic_ns(), true, true}); }

  static std::vector<Sample> all(const Reading& r, Metric m) {
    std::vector<Sample> out;
    for (const Sample& s : r.samples)
      if (s.metric == m) out.push_back(s);
    return out;
  }
  static std::optional<double> value(const Reading& r, Metric m) {
    const auto some = all(r, m);
    return some.empty() ? std::nullopt : std::optional(some.back().value);
  }
  /// Moves the clock of a scenario that says `clock held`.
  void pass(double seconds) { own_.symbol<void (*)(double)>("profgpu_stub_advance")(seconds); }
  int64_t scenario_unix_ns() const { return own_.symbol<int64_t (*)()>("profgpu_stub_unix_ns")(); }
  int64_t calls(const char* function) const {
    return own_.symbol<int64_t (*)(const char*)>("profgpu_stub_calls")(function);
  }

  std::unique_ptr<Backend> backend;

 private:
  std::string path_, file_;
  DynLib own_;
};

}  // namespace profgpu
