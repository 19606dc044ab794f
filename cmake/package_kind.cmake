# Run by cpack for each kind of package: the .tar.gz carries third-party libraries too.
if(CPACK_GENERATOR STREQUAL "TGZ")
  list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS ${build} ronde libraries /)
endif()
