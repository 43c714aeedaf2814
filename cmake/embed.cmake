# profgpu_embed(TARGET NAME FILE): the bytes of FILE in TARGET, from profgpu_NAME_begin to profgpu_NAME_end.
function(profgpu_embed target name file)
  set(embedded ${CMAKE_BINARY_DIR}/generated/${name}.s)
  file(CONFIGURE OUTPUT ${embedded} CONTENT [[
        .section .rodata
        .globl profgpu_@name@_begin
        .globl profgpu_@name@_end
profgpu_@name@_begin:
        .incbin "@file@"
profgpu_@name@_end:
        .section .note.GNU-stack, "", %progbits
]] @ONLY)
  # Clang minds that an assembler file has no use for C++'s options.
  set_source_files_properties(${embedded} PROPERTIES OBJECT_DEPENDS ${file}
                              COMPILE_OPTIONS -Wno-unused-command-line-argument)
  target_sources(${target} PRIVATE ${embedded})
endfunction()
