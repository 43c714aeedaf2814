// NCCL as its library exports it, in declarations of our own (nccl.h 2.7 and later): as much as collectives need.
// RCCL has the same names.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "measure/cuda_library.h"

namespace profgpu::nccl {

using Communicator = struct OpaqueCommunicator*;
constexpr int kInt32 = 2, kSum = 0;
/// By which ranks of several processes find each other.
struct UniqueId {
  std::array<char, 128> bytes;
};

std::string words_of(const DynLib& library, int code);

class Api {
  const DynLib& library_;   // what the calls are initialised from
  template <class... P>
  using Call = VendorCall<P...>;
  using Stream = cuda::Stream;
  using Address = cuda::Address;
#define PROFGPU_CALL(member, name) member{library_, words_of, name}

 public:
  explicit Api(const DynLib& library) : library_(library) {}

  Call<Communicator*, int, const int*> PROFGPU_CALL(create_all, "ncclCommInitAll");
  Call<UniqueId*> PROFGPU_CALL(unique_id, "ncclGetUniqueId");
  Call<Communicator*, int, UniqueId, int> PROFGPU_CALL(create_rank, "ncclCommInitRank");
  Call<Communicator> PROFGPU_CALL(destroy, "ncclCommDestroy");
  Call<> PROFGPU_CALL(begin_group, "ncclGroupStart");
  Call<> PROFGPU_CALL(end_group, "ncclGroupEnd");
  Call<Address, Address, size_t, int, int, Communicator, Stream> PROFGPU_CALL(all_reduce, "ncclAllReduce");
  Call<Address, Address, size_t, int, Communicator, Stream> PROFGPU_CALL(all_gather, "ncclAllGather");
  Call<Address, Address, size_t, int, int, Communicator, Stream> PROFGPU_CALL(reduce_scatter, "ncclReduceScatter");
  Call<Address, Address, size_t, int, int, Communicator, Stream> PROFGPU_CALL(broadcast, "ncclBroadcast");
  Call<Address, Address, size_t, int, int, int, Communicator, Stream> PROFGPU_CALL(reduce, "ncclReduce");
  Call<Address, size_t, int, int, Communicator, Stream> PROFGPU_CALL(send, "ncclSend");
  Call<Address, size_t, int, int, Communicator, Stream> PROFGPU_CALL(receive, "ncclRecv");
#undef PROFGPU_CALL
};

class Library : public VendorLibrary<Api> {
 public:
  /// PROFGPU_NCCL_LIBRARY where it is set, else the system's, else that of a Python environment.
  static Result<std::shared_ptr<Library>> open();

 private:
  using VendorLibrary::VendorLibrary;
};

}  // namespace profgpu::nccl
