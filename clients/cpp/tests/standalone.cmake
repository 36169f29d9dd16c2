# Copies SOURCE, the client's directory, out of the repository. There it configures, builds
# and installs by itself, and programs use it by find_package and by FetchContent.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    file(REMOVE_RECURSE "${scratch}")
    message(FATAL_ERROR "failed: ${ARGV}")
  endif()
endfunction()

string(RANDOM LENGTH 12 name)
set(scratch "$ENV{TMPDIR}")
if(NOT scratch)
  set(scratch /tmp)
endif()
set(scratch "${scratch}/strait-cpp-${name}")
# By itself, without its tests, which need the repository.
foreach(part CMakeLists.txt LICENSE cmake idl include src)
  file(COPY "${SOURCE}/${part}" DESTINATION "${scratch}/client")
endforeach()
file(COPY "${SOURCE}/tests/installed" "${SOURCE}/tests/fetched" DESTINATION "${scratch}")
set(common -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_COMPILER=${COMPILER}")

run("${CMAKE_COMMAND}" -S "${scratch}/client" -B "${scratch}/build" ${common})
run("${CMAKE_COMMAND}" --build "${scratch}/build" --parallel 2)
run("${CMAKE_COMMAND}" --install "${scratch}/build" --prefix "${scratch}/prefix")
run("${CMAKE_COMMAND}" -S "${scratch}/installed" -B "${scratch}/found" ${common}
    "-DCMAKE_PREFIX_PATH=${scratch}/prefix")
run("${CMAKE_COMMAND}" --build "${scratch}/found")
run("${scratch}/found/program")

run("${CMAKE_COMMAND}" -S "${scratch}/fetched" -B "${scratch}/taken-in" ${common}
    "-DSTRAIT_SOURCE=${scratch}/client")
run("${CMAKE_COMMAND}" --build "${scratch}/taken-in" --parallel 2)
run("${scratch}/taken-in/program")
file(REMOVE_RECURSE "${scratch}")
