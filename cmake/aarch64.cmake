# Toolchain file: builds on x86-64 for aarch64 (Grace, Jetson) with Debian's compiler and the libraries that
# scripts/sysroot-aarch64 unpacks. What the build must run, such as the tests, runs in qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(PROFGPU_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-aarch64 CACHE PATH "Debian's aarch64 libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PROFGPU_SYSROOT)
get_filename_component(CMAKE_SYSROOT ${PROFGPU_SYSROOT} ABSOLUTE)
if(NOT EXISTS ${CMAKE_SYSROOT}/packages)
  message(FATAL_ERROR "${CMAKE_SYSROOT} is not there: `scripts/sysroot-aarch64` makes it, and `make aarch64` runs that first")
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(PROFGPU_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(PROFGPU_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${PROFGPU_QEMU} -L ${CMAKE_SYSROOT})
endif()

# FindMPI asks mpicc and pkg-config, which speak of this machine's.
set(PROFGPU_MPI_FOLDER ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/openmpi)
