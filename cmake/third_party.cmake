# What the binaries have of others' libraries, and on which terms: one text, from what their packages say.

set(third_party ${CMAKE_BINARY_DIR}/share/third-party.txt)
set(text "profgpu is built with these libraries. Each is its authors', under the terms below. That of uPlot, which is in\nthe page of HTML reports, stands in each report.\n")
foreach(package libfmt-dev zlib1g-dev libdeflate-dev libisal-dev libzstd-dev libsqlite3-dev libyaml-dev libcrypt-dev
        libncurses-dev libnghttp2-dev libssl-dev)
  set(terms /usr/share/doc/${package}/copyright)
  string(APPEND text "\n\n======== ${package}\n\n")
  if(EXISTS ${terms})
    file(READ ${terms} said)
    string(APPEND text "${said}")
  else()
    string(APPEND text "Not found where this was built: ${terms}\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${third_party} CONTENT "@text@" @ONLY NEWLINE_STYLE UNIX)

# On Debian the Apache license is in every system.
set(copyright ${CMAKE_BINARY_DIR}/share/copyright)
file(CONFIGURE OUTPUT ${copyright} CONTENT "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: profgpu

Files: *
Copyright: 2026 the profgpu authors
License: Apache-2.0
Comment: The program is linked with libraries of others; their terms are in /usr/share/doc/profgpu/third-party.txt.

License: Apache-2.0
 The full text of the Apache License, version 2.0, is in /usr/share/common-licenses/Apache-2.0 on Debian systems.
" @ONLY NEWLINE_STYLE UNIX)
