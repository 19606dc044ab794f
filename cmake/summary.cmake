# What will be built, said once at the end of the configuration.
message(STATUS "ronde ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE} ${RONDE_SANITIZE}")
get_property(parts GLOBAL PROPERTY RONDE_PARTS)
foreach(part IN LISTS parts)
  message(STATUS "  ${part}: ${RONDE_HAVE_${part}} (${RONDE_WHY_${part}})")
endforeach()
