// World: the ranks of collectives, and the calls that they make together.
#pragma once

#include <span>
#include <vector>

#include "measure/cuda_library.h"
#include "measure/nccl_library.h"

namespace profgpu {

/// A rank in this process. Each byte that it sends is its number modulo 251, plus one, so that the result of a
/// collective is known value by value.
struct WorldRank {
  const cuda::Device* device;
  size_t number;
  nccl::Communicator communicator;
  cuda::DeviceMemory from, to;
};

/// All ranks of one process, or those of this process.
struct World {
  std::shared_ptr<nccl::Library> library;
  size_t ranks = 0;                ///< of all processes
  int64_t buffer_bytes = 0;
  std::vector<WorldRank> local;
  std::vector<nccl::Communicator> communicators;   ///< of the local ranks; destroyed with the world
  std::vector<const cuda::Device*> devices;        ///< of the local ranks

  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  /// All ranks are the devices of this process.
  Status open_devices();
  /// Buffers of `wanted` bytes, or of the half, a quarter … of it, where a device has no more memory.
  Status allocate(int64_t wanted, size_t first_rank);
};

struct CollectiveForm {
  const char *name, *label;
  /// What a rank calls for `bytes` in all. `from`, `to`: of its buffers; equal: in place.
  Status (*call)(const nccl::Api& api, const World& world, const WorldRank& rank, cuda::Address from, cuda::Address to,
                 size_t bytes);
  /// Of the result on rank `at`: how many bytes there are, and the value at an offset.
  size_t (*result_bytes)(size_t ranks, size_t at, size_t bytes);
  uint32_t (*result)(size_t ranks, size_t at, size_t bytes, size_t offset);
  /// Where it works in place, this part of the buffer is the rank's own: all of it, or that of its number.
  enum class InPlace { kNo, kWhole, kOwnPartSent, kOwnPartReceived } in_place;
};
/// In the order in which they are measured.
std::span<const CollectiveForm> collective_forms();
/// A message of these bytes, made whole numbers of values for each rank.
int64_t message_bytes(int64_t size, size_t ranks);

/// `calls` calls of all local ranks, put into their streams.
Status put_calls(const World& world, const CollectiveForm& form, size_t bytes, bool in_place, int64_t calls);
/// Waits for the streams of all local ranks.
Status wait_for_world(const World& world);
/// Both.
Status make_calls(const World& world, const CollectiveForm& form, size_t bytes, bool in_place, int64_t calls);
/// The number of wrong values, after one call into empty buffers.
Result<int64_t> wrong_values(const World& world, const CollectiveForm& form, size_t bytes, bool in_place);
/// `calls` messages from one rank to another, waited for; other ranks do nothing.
Status send_between(const World& world, size_t from, size_t to, size_t bytes, int64_t calls);

}  // namespace profgpu
