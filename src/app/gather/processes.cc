#include "app/gather/processes.h"

#include <dlfcn.h>

#include "base/dyn_lib.h"
#include "mpi/component.h"   // declarations of C only: nothing is linked

namespace profgpu {

Result<std::unique_ptr<MpiProcesses>> MpiProcesses::begin(const std::string& program) {
  auto library = DynLib::open_first(paths_of_part(program, "libprofgpu-mpi.so", "PROFGPU_MPI"));
  if (!library)
    return Error{
        "--mpi: " + library.error().message,
        "build profgpu where MPI's headers are (libopenmpi-dev, or the cluster's module), or set PROFGPU_MPI to "
        "libprofgpu-mpi.so"};
  // Open MPI's own plugins look for its symbols among those that all libraries share.
  dlopen(library->path().c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  const auto start = library->symbol<int (*)(profgpu_mpi*)>("profgpu_mpi_begin");
  std::unique_ptr<MpiProcesses> mpi(new MpiProcesses);
  profgpu_mpi here{};
  const bool started = start != nullptr && start(&here) == 0 && here.version == PROFGPU_MPI_VERSION;
  mpi->sizes_ = library->symbol<void (*)(uint64_t, uint64_t*)>("profgpu_mpi_sizes");
  mpi->gather_ = library->symbol<void (*)(const char*, char* const*, const uint64_t*)>("profgpu_mpi_gather");
  mpi->finish_ = library->symbol<void (*)()>("profgpu_mpi_end");
  if (!started || mpi->sizes_ == nullptr || mpi->gather_ == nullptr || mpi->finish_ == nullptr)
    return Error{"--mpi: " + library->path() + " does not start MPI, or is of another version",
                 "start profgpu with mpirun or srun of the MPI that it was built for"};
  library->leak();   // MPI's threads may outlive main()
  mpi->processes_.place = here.place;
  mpi->processes_.count = here.count;
  mpi->processes_.hosts.assign(here.hosts, here.hosts + here.count);
  mpi->processes_.taken = here.taken;
  MpiProcesses* self = mpi.get();
  mpi->processes_.gather = [self](const std::string& mine) { return self->gathered(mine); };
  return mpi;
}

MpiProcesses::~MpiProcesses() {
  if (finish_ != nullptr) finish_();
}

std::vector<std::string> MpiProcesses::gathered(const std::string& mine) const {
  std::vector<uint64_t> sizes(static_cast<size_t>(processes_.count));
  sizes_(mine.size(), sizes.data());
  std::vector<std::string> all;
  std::vector<char*> theirs(sizes.size());
  if (processes_.place == 0) {
    all.push_back(mine);
    for (size_t i = 1; i < sizes.size(); ++i) all.emplace_back(sizes[i], '\0');
    for (size_t i = 1; i < sizes.size(); ++i) theirs[i] = all[i].data();
  }
  gather_(mine.data(), theirs.data(), sizes.data());
  return all;
}

}  // namespace profgpu
