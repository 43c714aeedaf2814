# The page inside HTML reports: web/ built by npm into one file, and that file inside profgpu_view. Without npm or the
# packages that it needs, HTML reports are plain ones.

find_program(NPM npm HINTS ${CMAKE_SOURCE_DIR}/build/node/bin)   # scripts/install puts it there if there is none
set(web ${CMAKE_SOURCE_DIR}/web)
if(NOT PROFGPU_WEB)
  message(STATUS "HTML reports are plain, without timeline: PROFGPU_WEB is off")
elseif(NOT NPM)
  message(STATUS "HTML reports are plain, without timeline: npm is not installed")
elseif(NOT EXISTS ${web}/node_modules/vite)
  message(STATUS "HTML reports are plain, without timeline: `npm ci --prefix web` and configuring again brings it")
else()
  set(page ${CMAKE_BINARY_DIR}/web/index.html)
  get_filename_component(npm_folder ${NPM} DIRECTORY)   # node is beside
  file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS ${web}/src/*)
  file(GLOB page_settings CONFIGURE_DEPENDS ${web}/*.json ${web}/*.ts ${web}/*.html)
  add_custom_command(
    OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E env "PATH=${npm_folder}:$ENV{PATH}" ${NPM} --prefix ${web} run --silent build -- --outDir ${CMAKE_BINARY_DIR}/web --emptyOutDir
    DEPENDS ${page_sources} ${page_settings}
    COMMENT "Building the page of HTML reports")
  profgpu_embed(profgpu_view page ${page})
  target_compile_definitions(profgpu_view PRIVATE PROFGPU_HAS_PAGE=1)
endif()
