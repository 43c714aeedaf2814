# What records, samples and watches: its rooms, its commands, the library and the parts beside the program. All of it needs
# Linux. Without it (PROFGPU_COLLECT off) the program reads files.
profgpu_room(devices USES base trace LIBRARIES ${CMAKE_DL_LIBS} Threads::Threads)
profgpu_room(measure USES base trace devices analyse/report analyse/rank view measure/result LIBRARIES ${CMAKE_DL_LIBS}
             Threads::Threads COLD)
profgpu_room(watch/exporter USES base trace devices LIBRARIES dep_beast dep_yaml dep_crypt COLD ALONE kubelet_pods.cc
             metrics_service.cc)
if(TARGET dep_nghttp2)
  target_compile_definitions(profgpu_watch_exporter PRIVATE PROFGPU_HTTP2)
  target_link_libraries(profgpu_watch_exporter PRIVATE dep_nghttp2)
else()
  message(STATUS "No libnghttp2: profgpu exporter --kubernetes will say that it cannot ask the kubelet for pods")
endif()
profgpu_room(watch/live USES base record/wire trace devices trace/import analyse/report analyse/rank analyse/job
             analyse/rules watch/exporter COLD)
profgpu_room(watch/top USES base trace devices analyse/report view analyse/rules watch/live LIBRARIES dep_ncursesw COLD)
profgpu_room(watch/monitor USES base trace devices watch/exporter COLD)
target_sources(profgpu_cli PRIVATE ${collecting_commands})
target_compile_definitions(profgpu_cli PUBLIC PROFGPU_COLLECT)
target_link_libraries(profgpu_cli PUBLIC profgpu_devices profgpu_measure profgpu_watch_live profgpu_watch_top
                      profgpu_watch_exporter profgpu_watch_monitor)

# What runs for hours (`top`, `log`, `run`) stands together at the front of the program: with each page that it touches the
# kernel maps those around it.
foreach(room watch_top watch_live devices base analyse_report)
  target_sources(profgpu PRIVATE $<TARGET_OBJECTS:profgpu_${room}>)
endforeach()

profgpu_room(capi USES base trace devices analyse/report analyse/rank view app COLD)
target_include_directories(profgpu_capi PUBLIC ${CMAKE_SOURCE_DIR}/include)

# libprofgpu.so: what include/profgpu/ declares, and nothing else that another library could collide with.
set(exports ${CMAKE_CURRENT_SOURCE_DIR}/capi/exports.map)
add_library(profgpu_library SHARED $<TARGET_OBJECTS:profgpu_capi>)
target_link_libraries(profgpu_library PRIVATE profgpu_capi)
target_link_options(profgpu_library PRIVATE -Wl,--version-script=${exports})
if(NOT PROFGPU_SANITIZE)
  target_link_options(profgpu_library PRIVATE -Wl,-z,defs)   # the sanitizers' own functions come with the program
endif()
set_target_properties(profgpu_library PROPERTIES
  OUTPUT_NAME profgpu EXPORT_NAME profgpu LINK_DEPENDS ${exports} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(profgpu_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(profgpu_library INTERFACE cxx_std_17)

if(PROFGPU_STATIC_RUNTIME)
  target_link_options(profgpu_library PRIVATE -static-libstdc++)
endif()

add_subdirectory(record/inject)   # libprofgpu-inject.so, which goes into other processes
if(TARGET dep_ssl AND TARGET dep_crypto)
  add_subdirectory(tls)           # libprofgpu-tls.so
else()
  message(STATUS "No libprofgpu-tls.so (libssl-dev brings what it needs): HTTPS will say so")
endif()
