# fovea_add_test(NAME SOURCES ... [LIBS ...] [HEADERS target] [LABELS ...] [SERIAL] [TIMEOUT seconds]): a GoogleTest
# binary, registered as one ctest entry (starting LibTorch costs more than most tests). It uses the precompiled headers of
# `HEADERS`: fovea_model_zoo's or fovea_kernels' where it includes LibTorch, NONE's; GoogleTest's unless told. The labels `asan` and `tsan` put it among the tests
# that the presets of those names build (targets asan_tests, tsan_tests) and that `make sanitize` runs there.
if(NOT FOVEA_TESTS)
  return()
endif()
enable_testing()
find_package(GTest REQUIRED)
# GoogleTest takes longer to read than most tests.
add_library(fovea_test_headers OBJECT "${CMAKE_CURRENT_LIST_DIR}/empty.cc")
target_link_libraries(fovea_test_headers PRIVATE fovea_compile Threads::Threads GTest::gmock)
# UndefinedBehaviorSanitizer doubles what a test takes to compile, and looks for our mistakes, which are in the libraries.
if(FOVEA_SANITIZE MATCHES "undefined")
  set(test_options -fno-sanitize=undefined)
endif()
# -pthread: what gRPC asks of those who include it, and compilers take no headers that were precompiled without.
target_compile_options(fovea_test_headers PRIVATE -pthread ${test_options})
target_precompile_headers(fovea_test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h>)

add_custom_target(asan_tests)
add_custom_target(tsan_tests)

function(fovea_add_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;HEADERS" "SOURCES;LIBS;LABELS" ${ARGN})
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
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${launcher} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES LABELS "unit;${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  foreach(sanitizer asan tsan)
    if(sanitizer IN_LIST ARG_LABELS)
      add_dependencies(${sanitizer}_tests ${name})
    endif()
  endforeach()
  if(ARG_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
