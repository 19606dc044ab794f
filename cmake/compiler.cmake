# Language level, warnings, sanitizers, ccache; the same for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Line tables are what a stack trace or a profile needs; the rest of the debug information costs a
# fifth of the compiler's time.
if(CMAKE_CXX_FLAGS_RELWITHDEBINFO STREQUAL "-O2 -g -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
  if(RONDE_KEEP_DEBUG)
    string(APPEND CMAKE_CXX_FLAGS_RELWITHDEBINFO " -g1")
  endif()
endif()
include(GNUInstallDirs)
# A Python process may hold other libraries with the same names: TensorFlow exports BoringSSL's, which
# would replace those of a shared OpenSSL. So the package links libssl and libcrypto statically.
if(SKBUILD)
  find_library(RONDE_STATIC_CRYPTO libcrypto.a)
  set(OPENSSL_USE_STATIC_LIBS ${RONDE_STATIC_CRYPTO})
  if(NOT RONDE_STATIC_CRYPTO)
    message(WARNING "libcrypto.a was not found: 'import tensorflow' before ronde may crash init()")
  endif()
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

find_program(RONDE_CCACHE ccache)
set(RONDE_CCACHE_COMMAND "$<$<BOOL:${RONDE_CCACHE}>:${RONDE_CCACHE}>")  # for commands of our own
if(RONDE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RONDE_CCACHE})
endif()

# A Python package carries the names of functions, for stacks, but not the lines. A debugger finds
# lines that are kept apart (packaging/wheel.sh) by the build ID.
if(SKBUILD AND RONDE_KEEP_DEBUG)
  add_link_options(-Wl,--build-id)
elseif(SKBUILD)
  add_link_options(-Wl,--strip-debug)
endif()

# An installed tree may be moved, with the third-party libraries that a package puts into it.
if(NOT SKBUILD)
  file(RELATIVE_PATH from_programs_to_libraries
    ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set(CMAKE_INSTALL_RPATH $ORIGIN $ORIGIN/${from_programs_to_libraries})
endif()

add_library(ronde_compiler INTERFACE)
target_include_directories(ronde_compiler INTERFACE ${PROJECT_SOURCE_DIR})
# clang takes a local name for a shadow of one in another source of its batch. gcc looks at all
# sources, and clang-tidy at each by itself.
set(RONDE_SHADOW_WARNING -Wshadow)
if(RONDE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(RONDE_SHADOW_WARNING "")
endif()
if(RONDE_THREAD_SAFETY AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "RONDE_THREAD_SAFETY=ON needs clang++; this is ${CMAKE_CXX_COMPILER_ID}")
endif()
target_compile_options(ronde_compiler INTERFACE
  -Wall -Wextra ${RONDE_SHADOW_WARNING} -Wconversion -Wsign-conversion
  $<$<BOOL:${RONDE_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${RONDE_THREAD_SAFETY}>:-Werror=thread-safety>)
target_link_libraries(ronde_compiler INTERFACE Threads::Threads)

if(RONDE_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "RONDE_BUILD_FUZZERS=ON needs clang++; this is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()

# Instruction sets that SIMD code is not compiled for. Each costs compile time. Few CPUs that train
# are so old (before 2013) that they lack AVX2; they run scalar code. Sanitizers look at what is the
# same in all of them.
set(RONDE_LEFT_OUT_TARGETS "(HWY_SSSE3|HWY_SSE4)")
if(NOT RONDE_SANITIZE STREQUAL "")
  set(RONDE_LEFT_OUT_TARGETS "(HWY_SSSE3|HWY_SSE4|HWY_AVX3)")
endif()

if(RONDE_SANITIZE STREQUAL "address")
  # ASan itself stops at null pointers, and dynamic types that are wrong are rare where nothing is
  # cast down: these two checks took a fifth of the time to compile.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,vptr
                      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Compares types of functions by the addresses of their descriptions, which are hidden and so
    # differ between backends/module_loader.cc and the modules whose functions it calls.
    add_compile_options(-fno-sanitize=function)
  endif()
  add_link_options(-fsanitize=address,undefined)
elseif(RONDE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT RONDE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "RONDE_SANITIZE=${RONDE_SANITIZE} is not valid; allowed: address, thread, or empty")
endif()

# Sources of a target are compiled several at once: most of the time to compile one goes into
# headers that the others include, too.
set(CMAKE_UNITY_BUILD ${RONDE_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 60)
if(RONDE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Takes a class that one source defines for itself for one of a header.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  # Collecting garbage below 512 MiB takes an eighth of the time of large batches.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=524288>")
endif()

# ronde_apart(source...): compiled each by itself.
function(ronde_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# ronde_library(name SOURCES ... [APART ...] PUBLIC ... PRIVATE ...): one static library per folder.
# What it may include is what it links, so a call in the wrong direction does not link.
function(ronde_library name)
  cmake_parse_arguments(LIB "" "" "SOURCES;APART;PUBLIC;PRIVATE" ${ARGN})
  ronde_apart(${LIB_APART})
  add_library(${name} STATIC ${LIB_SOURCES} ${LIB_APART})
  target_link_libraries(${name} PUBLIC ronde_compiler ${LIB_PUBLIC} PRIVATE ${LIB_PRIVATE})
endfunction()

# ronde_seldom_run(target...): code of the command and of reports. It runs once, and takes longer to
# optimise than it then saves.
function(ronde_seldom_run)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endforeach()
endfunction()

# Backends in shared objects of their own go into one folder of the build tree, where everything
# that is run from the build tree finds them; when installed they lie beside the core library.
set(RONDE_MODULE_DIR ${PROJECT_BINARY_DIR}/modules)
set(CMAKE_BUILD_RPATH ${RONDE_MODULE_DIR})

# ronde_module(name SOURCES ... LIBS ...): lib<name>.so, loaded on demand by backends/module_loader.
function(ronde_module name)
  cmake_parse_arguments(MODULE "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} MODULE ${MODULE_SOURCES})
  target_link_libraries(${name} PRIVATE ronde_compiler ${MODULE_LIBS})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${RONDE_MODULE_DIR})
endfunction()

# ronde_installed_module(name FACTORY function [SOURCES ...] LIBS ...): as ronde_module, for users. It
# exports the function, which factory.h of the folder declares. The Python package carries it too.
function(ronde_installed_module name)
  cmake_parse_arguments(INSTALLED "" "FACTORY" "SOURCES;LIBS" ${ARGN})
  set(exports MODULE)
  if(INSTALLED_FACTORY MATCHES "_accelerator$")
    set(exports ACCELERATOR_MODULE)
  endif()
  set(entry ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${entry} CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/factory.h\"
#include \"core/ports/backend_module.h\"
RONDE_DEFINE_${exports}(ronde::${INSTALLED_FACTORY})
")
  ronde_module(${name} SOURCES ${entry} ${INSTALLED_SOURCES} LIBS ${INSTALLED_LIBS})
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT modules)
  set_property(GLOBAL APPEND PROPERTY RONDE_INSTALLED_MODULES ${name})
endfunction()
