# Checks of the project as a whole, and tests of the built program. Python here is Debian's: a `python3` on the PATH may
# be another.
find_program(PROFGPU_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)

function(profgpu_check name)
  add_test(NAME check_${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(check_${name} PROPERTIES LABELS checks TIMEOUT 300
                       ENVIRONMENT "PROFGPU=$<TARGET_FILE:profgpu>")
endfunction()

profgpu_check(includes ${PROFGPU_PYTHON} scripts/check-includes)
profgpu_check(sizes ${PROFGPU_PYTHON} scripts/check-sizes)
profgpu_check(types ${PROFGPU_PYTHON} scripts/check-types)
profgpu_check(walk ${PROFGPU_PYTHON} scripts/check-walk)
profgpu_check(docs ${PROFGPU_PYTHON} scripts/check-docs)
profgpu_check(doc_pages ${PROFGPU_PYTHON} scripts/doc-pages)
profgpu_check(words ${PROFGPU_PYTHON} scripts/check-words)
profgpu_check(golden_coverage ${PROFGPU_PYTHON} scripts/check-golden)
profgpu_check(golden ${PROFGPU_PYTHON} scripts/golden)
profgpu_check(command_line ${PROFGPU_PYTHON} tests/command_line.py)
if(NOT PROFGPU_SANITIZE)
  profgpu_check(installed_library ${PROFGPU_PYTHON} tests/installed_library.py ${CMAKE_BINARY_DIR})
endif()
if(PROFGPU_STATIC_RUNTIME)
  profgpu_check(binary ${PROFGPU_PYTHON} scripts/check-binary $<TARGET_FILE:profgpu>)
  profgpu_check(library_binary ${PROFGPU_PYTHON} scripts/check-binary $<TARGET_FILE:profgpu_library>)
  profgpu_check(binary_tls ${PROFGPU_PYTHON} scripts/check-binary $<TARGET_FILE:profgpu_tls>)
endif()
profgpu_check(inject ${PROFGPU_PYTHON} scripts/check-inject $<TARGET_FILE:profgpu_inject>)
