// Processes that `mpirun` or `srun` started together, through the component that knows MPI.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gather/processes.h"

namespace profgpu {

/// Ends MPI when destroyed: after the last call of `processes`.
class MpiProcesses {
 public:
  /// `program`: this program's own file, beside which the component lies. The error says where it was looked for.
  static Result<std::unique_ptr<MpiProcesses>> begin(const std::string& program);
  ~MpiProcesses();
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  [[nodiscard]] const Processes& processes() const { return processes_; }

 private:
  MpiProcesses() = default;
  [[nodiscard]] std::vector<std::string> gathered(const std::string& mine) const;

  Processes processes_;
  void (*sizes_)(uint64_t, uint64_t*) = nullptr;
  void (*gather_)(const char*, char* const*, const uint64_t*) = nullptr;
  void (*finish_)() = nullptr;
};

}  // namespace profgpu
