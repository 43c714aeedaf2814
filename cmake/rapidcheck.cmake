# RapidCheck is for property tests only; without it they are compiled without the dependency and fail loudly if they use it.
add_library(dep_rapidcheck INTERFACE)
find_path(rapidcheck_INCLUDE rapidcheck.h)
find_library(rapidcheck_LIBRARY rapidcheck)
if(rapidcheck_INCLUDE AND rapidcheck_LIBRARY)
  target_include_directories(dep_rapidcheck SYSTEM INTERFACE ${rapidcheck_INCLUDE})
  target_link_libraries(dep_rapidcheck INTERFACE ${rapidcheck_LIBRARY})
endif()
