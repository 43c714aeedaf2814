# Manual page, completions, installation and the Debian package.

set(share ${CMAKE_BINARY_DIR}/share)
add_custom_command(
  OUTPUT ${share}/profgpu.1.gz ${share}/profgpu.bash ${share}/_profgpu ${share}/profgpu.fish
  COMMAND ${CMAKE_COMMAND} -E make_directory ${share}
  COMMAND profgpu manpage > ${share}/profgpu.1
  COMMAND gzip -9nf ${share}/profgpu.1
  COMMAND profgpu completion bash > ${share}/profgpu.bash
  COMMAND profgpu completion zsh > ${share}/_profgpu
  COMMAND profgpu completion fish > ${share}/profgpu.fish
  DEPENDS profgpu
  COMMENT "Writing the manual page and shell completions")
add_custom_target(share_files ALL DEPENDS ${share}/profgpu.1.gz)

# igzip, carried beside the program and opened where a gzip file is read (src/base/gzip.cc).
find_library(isal_LIBRARY libisal.so.2)
if(isal_LIBRARY)
  get_filename_component(isal_FILE ${isal_LIBRARY} REALPATH)
  file(COPY_FILE ${isal_FILE} ${CMAKE_BINARY_DIR}/libisal.so.2 ONLY_IF_DIFFERENT)
  install(FILES ${CMAKE_BINARY_DIR}/libisal.so.2 DESTINATION lib/profgpu)
  install(FILES ${CMAKE_BINARY_DIR}/libisal.so.2 DESTINATION lib/profgpu COMPONENT wheel EXCLUDE_FROM_ALL)
else()
  message(STATUS "No libisal: gzip files are read by zlib, at half the speed")
endif()

install(TARGETS profgpu RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${share}/profgpu.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${share}/profgpu.bash DESTINATION share/bash-completion/completions RENAME profgpu)
install(FILES ${share}/profgpu.fish DESTINATION share/fish/vendor_completions.d)
# What belongs into a package and what an administrator installs lie in different folders: zsh looks into both, and a
# license that every system has is named there, not repeated.
install(CODE "
  set(zsh site-functions)
  set(copyright \"${CMAKE_SOURCE_DIR}/LICENSE\")
  if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
    set(zsh vendor-completions)
    set(copyright \"${copyright}\")
  endif()
  file(INSTALL \"\${copyright}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/profgpu\" RENAME copyright)
  file(INSTALL \"${share}/_profgpu\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/share/zsh/\${zsh}\")")
install(FILES deploy/ci/action.yml deploy/ci/gitlab.yml DESTINATION share/profgpu/ci)
# In PATH for any job, and beside the action, which runs the one in its own folder.
install(PROGRAMS deploy/ci/profgpu-gate DESTINATION ${CMAKE_INSTALL_BINDIR})
install(PROGRAMS deploy/ci/profgpu-gate DESTINATION share/profgpu/ci)
install(PROGRAMS deploy/ci/profgpu-gate DESTINATION bin COMPONENT wheel EXCLUDE_FROM_ALL)
install(FILES README.md CHANGELOG.md AGENTS.md ${third_party} DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_COMPONENTS_ALL Unspecified)
if(PROFGPU_COLLECT)
  install(FILES deploy/profgpu.rules.yml deploy/grafana-dashboard.json deploy/kubernetes.yml DESTINATION share/profgpu)
  install(FILES deploy/profgpu-exporter.service deploy/profgpu-monitor.service DESTINATION lib/systemd/system)

  # The library, for find_package(profgpu).
  include(CMakePackageConfigHelpers)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/profgpu)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/profgpuConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(TARGETS profgpu_library EXPORT profgpu DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
  install(DIRECTORY include/profgpu DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
  install(EXPORT profgpu NAMESPACE profgpu:: FILE profgpuConfig.cmake DESTINATION ${package} COMPONENT library)
  install(FILES ${CMAKE_BINARY_DIR}/profgpuConfigVersion.cmake DESTINATION ${package} COMPONENT library)
  install(FILES ${copyright} ${third_party} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libprofgpu-dev COMPONENT library)

  # What the Python wheel holds beside the package (pyproject.toml): a folder in which everything finds the rest.
  install(TARGETS profgpu RUNTIME DESTINATION bin COMPONENT wheel EXCLUDE_FROM_ALL)
  install(FILES $<TARGET_FILE:profgpu_library> DESTINATION lib RENAME libprofgpu.so   # a wheel has no links
        COMPONENT wheel EXCLUDE_FROM_ALL)
  install(CODE "if(CMAKE_INSTALL_DO_STRIP)   # of targets CMake does it
      execute_process(COMMAND ${CMAKE_STRIP} --strip-unneeded \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/libprofgpu.so
                      COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT wheel EXCLUDE_FROM_ALL)
  install(TARGETS profgpu_inject profgpu_preload LIBRARY DESTINATION lib/profgpu COMPONENT wheel EXCLUDE_FROM_ALL)
  list(APPEND CPACK_COMPONENTS_ALL library)
endif()
install(FILES LICENSE ${third_party} DESTINATION share/doc COMPONENT wheel EXCLUDE_FROM_ALL)

# Two packages: the program, which needs nothing but glibc and libgcc, and the library with its headers.
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_NAME profgpu)
set(CPACK_PACKAGE_VENDOR "the profgpu authors")
set(CPACK_PACKAGE_CONTACT "the profgpu authors <profgpu@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "shows why GPU work is slow, and what to change")
set(CPACK_DEBIAN_UNSPECIFIED_DESCRIPTION "Records or reads what a job did on its GPUs, from one GPU to many nodes, finds
where the time goes, and shows what that costs and what to change. Watches
devices on a screen, logs them, and exports them for Prometheus.")
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "The library under profgpu, with its headers for C and C++: opens traces and
recordings, analyzes them, and watches devices.")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME profgpu)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1 (>= 4.2)")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libprofgpu-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/triggers)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS OFF)   # it would ask this machine's packages
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1 (>= 4.2)")
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR})
include(CPack)
