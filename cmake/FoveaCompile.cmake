# Compiler settings of every target: language level, warnings, sanitizers, ccache, output folders.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/static")
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib/fovea")  # of programs; FoveaInstall.cmake
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers need the two sloppiness flags to be cacheable.
  set(launcher env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

# Tests link the server's libraries some seventy times; LLVM's linker takes a third of the time that GNU's does.
find_program(LLD ld.lld)
if(LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options("$<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>")
endif()

# Every C++ target links this one. -fPIC for executables too: they share precompiled headers with libraries.
add_library(fovea_compile INTERFACE)
target_compile_options(fovea_compile INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-fPIC>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers>"
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>")
target_include_directories(fovea_compile INTERFACE "${CMAKE_SOURCE_DIR}")
if(FOVEA_SANITIZE)
  target_compile_options(fovea_compile INTERFACE -fsanitize=${FOVEA_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(fovea_compile INTERFACE -fsanitize=${FOVEA_SANITIZE})
endif()
