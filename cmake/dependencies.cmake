# Everything that is not ours, as targets dep_*. Static libraries where Debian has them, so that the program runs
# where they are not installed.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# profgpu_dependency(NAME HEADER LIBRARY...): an error if it is not there; with OPTIONAL before the header, no target then.
function(profgpu_dependency name header)
  cmake_parse_arguments(ARG OPTIONAL "" "" ${header} ${ARGN})
  list(POP_FRONT ARG_UNPARSED_ARGUMENTS header)
  find_path(${name}_INCLUDE ${header})
  find_library(${name}_LIBRARY NAMES ${ARG_UNPARSED_ARGUMENTS})
  if(NOT ${name}_INCLUDE OR NOT ${name}_LIBRARY)
    if(ARG_OPTIONAL)
      return()
    endif()
    message(FATAL_ERROR "${name} is not installed (scripts/install demo brings it)")
  endif()
  add_library(dep_${name} INTERFACE)
  target_include_directories(dep_${name} SYSTEM INTERFACE ${${name}_INCLUDE})
  target_link_libraries(dep_${name} INTERFACE ${${name}_LIBRARY})
endfunction()

profgpu_dependency(zlib zlib.h libz.a z)
profgpu_dependency(deflate libdeflate.h libdeflate.a deflate)
profgpu_dependency(zstd zstd.h libzstd.a zstd)
profgpu_dependency(sqlite sqlite3.h libsqlite3.a sqlite3)   # the history of runs, SQL over traces, SQLite files
if(PROFGPU_COLLECT)
  # HTTP, TLS, its settings' YAML and bcrypt, for `profgpu exporter`.
  if(PROFGPU_TLS)
    profgpu_dependency(ssl OPTIONAL openssl/ssl.h libssl.a ssl)
    profgpu_dependency(crypto OPTIONAL openssl/evp.h libcrypto.a crypto)
  endif()
  profgpu_dependency(yaml yaml.h libyaml.a yaml)
  profgpu_dependency(crypt crypt.h libcrypt.a crypt)
  # HTTP/2, for the pods that `profgpu exporter --kubernetes` asks of the kubelet.
  profgpu_dependency(nghttp2 OPTIONAL nghttp2/nghttp2.h libnghttp2.a nghttp2)
  # The screen of `profgpu top`.
  profgpu_dependency(tinfo term.h libtinfo.a tinfo)
  profgpu_dependency(ncursesw ncursesw/curses.h libncursesw.a ncursesw)
  target_link_libraries(dep_ncursesw INTERFACE dep_tinfo)
  find_path(boost_INCLUDE boost/beast.hpp REQUIRED)
  add_library(dep_beast INTERFACE)
  target_include_directories(dep_beast SYSTEM INTERFACE ${boost_INCLUDE})
  target_link_libraries(dep_beast INTERFACE Threads::Threads)
endif()

# fmt: headers only from the package; src/base/fmt.cc compiles the functions once.
find_path(fmt_INCLUDE fmt/format-inl.h REQUIRED)
add_library(dep_fmt INTERFACE)
target_include_directories(dep_fmt SYSTEM INTERFACE ${fmt_INCLUDE})

