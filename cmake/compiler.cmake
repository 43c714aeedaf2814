# Compiler settings that hold for every target.

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# Large units take less time to build everything, small ones less to build again after a change (preset dev). Where it
# builds once, without a cache, the compiler doesn't tidy up its memory: up to two gigabytes a core.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT memory_mb QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR mb_per_core "${memory_mb} / ${cores}")
set(unity_files 10)
if(mb_per_core GREATER 2000)
  set(unity_files 40)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options("SHELL:--param ggc-min-expand=1000" "SHELL:--param ggc-min-heapsize=2000000")
  endif()
endif()
set(PROFGPU_UNITY_FILES ${unity_files} CACHE STRING "Files of a unit")

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# The program and libprofgpu.so are made of the same objects. With hidden symbols, code for a shared library is as fast.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # a * b + c as one instruction rounds once: figures would differ from those of x86-64 in the last digit.
  add_compile_options(-ffp-contract=off)
endif()
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffunction-sections -fdata-sections)
add_link_options(-Wl,--gc-sections -Wl,--as-needed)
if(PROFGPU_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own stable_sort uses a function that it marks deprecated.
  add_compile_options(-Wno-deprecated-declarations)
  if(PROFGPU_UNITY)
    add_compile_options(-Wno-shadow)   # a constant inside a function may have the name of another file's
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports these two in its own std::string and std::optional once sanitizers or -O2 inline them.
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized)
  if(PROFGPU_UNITY)
    # A class's hidden implementation may use its file's anonymous namespace: to the compiler that file is no main file here.
    add_compile_options(-Wno-subobject-linkage)
  endif()
endif()

if(PROFGPU_SANITIZE)
  add_compile_options(-fsanitize=${PROFGPU_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PROFGPU_SANITIZE})
  if(PROFGPU_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A quarter of the time to compile. The address sanitizer ends at null pointers too; the fuzz preset has all four.
    add_compile_options(-fno-sanitize=null,alignment,vptr,object-size)
  endif()
endif()
if(PROFGPU_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "PROFGPU_FUZZ needs clang (preset fuzz)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
