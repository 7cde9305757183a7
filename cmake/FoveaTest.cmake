# fovea_add_test(NAME SOURCES ... [LIBS ...] [HEADERS target] [LABELS ...] [SERIAL] [THREADED] [SHARDS number] [TIMEOUT seconds]): a
# GoogleTest binary, registered as one ctest entry (starting LibTorch costs more than most tests), or as SHARDS of them on one
# thread each, which take its tests in turn. It uses the precompiled headers of
# `HEADERS`: fovea_model_zoo's or fovea_kernels' where it includes LibTorch, NONE's; GoogleTest's unless told. The labels `asan` and `tsan` put it among the tests
# that the presets of those names build (targets asan_tests, tsan_tests) and that `make sanitize` runs there. THREADED: it
# computes on every core for long, and gets them alone.
# OMP_WAIT_POLICY=passive: OpenMP's threads sleep where they wait for each other. They spin otherwise, for milliseconds, and on
# cores that something else wants too they spin in place of the one that they wait for: a test then takes ten times as long.
if(NOT FOVEA_TESTS)
  return()
endif()
enable_testing()
include(ProcessorCount)
ProcessorCount(FOVEA_CORES)
find_package(GTest REQUIRED)
# GoogleTest takes longer to read than most tests.
add_library(fovea_test_headers OBJECT "${CMAKE_CURRENT_LIST_DIR}/empty.cc")
target_link_libraries(fovea_test_headers PRIVATE fovea_compile Threads::Threads GTest::gmock)
# What tests take to compile is GoogleMock's templates. They are compiled for that, and not for speed, which is in the libraries.
set(test_options -O1)
if(FOVEA_SANITIZE)
  set(test_options -O0)
endif()
# UndefinedBehaviorSanitizer doubles what a test takes to compile, and looks for our mistakes, which are in the libraries.
if(FOVEA_SANITIZE MATCHES "undefined")
  list(APPEND test_options -fno-sanitize=undefined)
endif()
# -pthread: what gRPC asks of those who include it, and compilers take no headers that were precompiled without.
target_compile_options(fovea_test_headers PRIVATE -pthread ${test_options})
target_precompile_headers(fovea_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)

add_custom_target(asan_tests)
add_custom_target(tsan_tests)

function(fovea_add_test name)
  cmake_parse_arguments(ARG "SERIAL;THREADED" "TIMEOUT;HEADERS;SHARDS" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE fovea_compile ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS fovea_test_headers)
  endif()
  target_compile_options(${name} PRIVATE ${test_options})
  if(ARG_HEADERS STREQUAL "fovea_test_headers")
    target_compile_options(${name} PRIVATE -pthread)
  endif()
  if(ARG_HEADERS STREQUAL "fovea_test_headers" OR (TARGET ${ARG_HEADERS} AND NOT FOVEA_SANITIZE))
    target_precompile_headers(${name} REUSE_FROM ${ARG_HEADERS})
  elseif(ARG_HEADERS STREQUAL "fovea_kernels")  # whose options are others under sanitizers
    target_precompile_headers(${name} PRIVATE <ATen/ATen.h> <gtest/gtest.h>)
  endif()
  set(launcher)
  if(FOVEA_SANITIZE STREQUAL "thread")
    # gcc 12's ThreadSanitizer cannot place its memory on kernels that randomise addresses with more bits than it knew.
    set(launcher setarch ${CMAKE_HOST_SYSTEM_PROCESSOR} --addr-no-randomize)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  set(entries ${name})
  if(ARG_SHARDS)
    set(entries)
    math(EXPR last "${ARG_SHARDS} - 1")
    foreach(shard RANGE ${last})
      list(APPEND entries ${name}_${shard})
    endforeach()
  endif()
  foreach(entry IN LISTS entries)
    add_test(NAME ${entry} COMMAND ${launcher} $<TARGET_FILE:${name}>)
    # Sanitizers end a process that asks for more memory than there can be, which tests do on purpose.
    set(environment OMP_WAIT_POLICY=passive ASAN_OPTIONS=allocator_may_return_null=1
      "TSAN_OPTIONS=allocator_may_return_null=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan_suppressions.txt")
    if(ARG_SHARDS)
      list(FIND entries ${entry} shard)
      list(APPEND environment OMP_NUM_THREADS=1 GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${shard})
    endif()
    set_tests_properties(${entry} PROPERTIES
      LABELS "unit;${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${environment}")
    if(ARG_THREADED)
      set_tests_properties(${entry} PROPERTIES PROCESSORS ${FOVEA_CORES})
    endif()
    if(ARG_SERIAL)
      set_tests_properties(${entry} PROPERTIES RUN_SERIAL ON)
    endif()
  endforeach()
  foreach(sanitizer asan tsan)
    if(sanitizer IN_LIST ARG_LABELS)
      add_dependencies(${sanitizer}_tests ${name})
    endif()
  endforeach()
endfunction()
