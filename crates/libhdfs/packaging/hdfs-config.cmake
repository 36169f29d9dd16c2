# find_package(hdfs CONFIG) defines the target hdfs::hdfs.
get_filename_component(_hdfs_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hdfs::hdfs)
  add_library(hdfs::hdfs SHARED IMPORTED)
  set_target_properties(hdfs::hdfs PROPERTIES
    IMPORTED_LOCATION "${_hdfs_prefix}/lib/libhdfs.so.0.0.0"
    IMPORTED_SONAME "libhdfs.so.0.0.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_hdfs_prefix}/include")
endif()
unset(_hdfs_prefix)
