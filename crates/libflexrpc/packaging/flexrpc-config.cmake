# find_package(flexrpc) defines the targets flexrpc::flexrpc (shared) and flexrpc::static.
get_filename_component(_flexrpc_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET flexrpc::flexrpc)
    add_library(flexrpc::flexrpc SHARED IMPORTED)
    set_target_properties(flexrpc::flexrpc PROPERTIES
        IMPORTED_LOCATION "${_flexrpc_prefix}/lib/libflexrpc.so.0"
        IMPORTED_SONAME libflexrpc.so.0
        INTERFACE_INCLUDE_DIRECTORIES "${_flexrpc_prefix}/include")
    find_package(Threads REQUIRED)
    add_library(flexrpc::static STATIC IMPORTED)
    set_target_properties(flexrpc::static PROPERTIES
        IMPORTED_LOCATION "${_flexrpc_prefix}/lib/libflexrpc.a"
        INTERFACE_INCLUDE_DIRECTORIES "${_flexrpc_prefix}/include"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;m;${CMAKE_DL_LIBS}")
endif()
unset(_flexrpc_prefix)
