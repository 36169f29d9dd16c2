# find_package(libstrait) defines the target libstrait::libstrait. `strait` is the C++ client's package.
get_filename_component(_libstrait_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET libstrait::libstrait)
    add_library(libstrait::libstrait SHARED IMPORTED)
    set_target_properties(libstrait::libstrait PROPERTIES
        IMPORTED_LOCATION "${_libstrait_prefix}/lib/libstrait.so"
        IMPORTED_NO_SONAME TRUE
        INTERFACE_INCLUDE_DIRECTORIES "${_libstrait_prefix}/include")
endif()
unset(_libstrait_prefix)
