// The environment variables by which launchers tell a process its rank: torchrun, Open MPI, MPICH and Intel MPI,
// MVAPICH, Slurm. Slurm's come last: a process that mpirun starts within a Slurm job has those of its node's daemon.
// No C++ runtime: the recorder has none.
#pragma once

namespace profgpu {

using LauncherVariables = const char* const[5];

inline constexpr LauncherVariables kRankVariables = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                                                     "SLURM_PROCID"};
inline constexpr LauncherVariables kLocalRankVariables = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                                          "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
                                                          "SLURM_LOCALID"};
inline constexpr LauncherVariables kWorldSizeVariables = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                          "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS"};

}  // namespace profgpu
