# CPack: a .deb and a .tar.gz with headers, libraries, modules and the command, made by
# packaging/cpp.sh. The .deb depends on Debian's libraries; the .tar.gz carries them.
set(CPACK_PACKAGE_NAME ronde)
set(CPACK_PACKAGE_VENDOR Ronde)
set(CPACK_PACKAGE_CONTACT "The Ronde authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Collective communication for data-parallel training")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_SYSTEM_NAME linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
# Loaded where they are installed.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libopenmpi3 | libopenmpi40 | libmpich12, libgloo0")
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/package_kind.cmake)

# The third-party libraries, for the .tar.gz alone; the C and C++ ones are the machine's.
install(RUNTIME_DEPENDENCY_SET ronde_libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+)\\.so"
  DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libraries EXCLUDE_FROM_ALL)
# Ronde's licence, by the name that Debian gives it, and those of the libraries in the packages.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/ronde RENAME copyright COMPONENT cpp)
if(RONDE_LICENSES)
  install(DIRECTORY ${RONDE_LICENSES} DESTINATION share/doc/ronde COMPONENT cpp)
endif()
include(CPack)
