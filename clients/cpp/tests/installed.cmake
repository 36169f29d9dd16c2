# Installs BUILD below SCRATCH, and builds and runs PROGRAM against that.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}")
  endif()
endfunction()

file(REMOVE_RECURSE "${SCRATCH}/prefix" "${SCRATCH}/build")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/prefix")
run("${CMAKE_COMMAND}" -S "${PROGRAM}" -B "${SCRATCH}/build" "-DCMAKE_CXX_COMPILER=${COMPILER}"
    "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix")
run("${CMAKE_COMMAND}" --build "${SCRATCH}/build")
run("${SCRATCH}/build/program")

# Thrift stays inside.
file(GLOB_RECURSE headers "${SCRATCH}/prefix/include/*")
foreach(header IN LISTS headers)
  file(STRINGS "${header}" found REGEX "include <(thrift|Dfs|dfs)")
  if(found)
    message(FATAL_ERROR "${header} includes Thrift's: ${found}")
  endif()
endforeach()
