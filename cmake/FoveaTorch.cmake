# LibTorch as one target, `fovea_torch`, with or without a CUDA toolkit.
#
# LibTorch comes from the PyPI wheel in .venv, unless CMAKE_PREFIX_PATH names another one. The wheel's own
# find_package(Torch) fails where no CUDA toolkit is installed, because the wheel was built with CUDA: there its CPU
# libraries are imported by hand. Not libtorch: it is empty, and loads libtorch_cuda with all of CUDA.
# Sets FOVEA_CUDA_FOUND, and FOVEA_TORCH_RUNTIME to the wheels' libraries that a program needs to load: those linked here
# and what they need themselves (libtorch_cpu: libcudart and libcupti).

set(FOVEA_TORCH_VERSION 2.11)

file(GLOB venv_torch "${CMAKE_SOURCE_DIR}/.venv/lib/python3.*/site-packages/torch")
find_path(FOVEA_TORCH_ROOT NAMES include/ATen/ATen.h HINTS ${venv_torch} PATHS ${CMAKE_PREFIX_PATH} NO_DEFAULT_PATH)
if(NOT FOVEA_TORCH_ROOT)
  message(FATAL_ERROR "LibTorch ${FOVEA_TORCH_VERSION} was not found: run `make setup`, or set CMAKE_PREFIX_PATH")
endif()
# Through the link .venv, not what it points to: with another Python package that lies elsewhere, and the compiler cache
# would know no object any more.
cmake_path(ABSOLUTE_PATH FOVEA_TORCH_ROOT NORMALIZE OUTPUT_VARIABLE torch_root)
file(STRINGS "${torch_root}/include/torch/headeronly/version.h" version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR)")
string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" version "${version_lines}")
if(NOT version VERSION_EQUAL FOVEA_TORCH_VERSION)
  # at::native::cpublas::brgemm and the mkldnn operators are private and change between releases.
  message(FATAL_ERROR "LibTorch ${version} in ${torch_root}: Fovea needs ${FOVEA_TORCH_VERSION}")
endif()

set(FOVEA_CUDA_FOUND OFF)
if(NOT FOVEA_CUDA STREQUAL "OFF")
  find_program(FOVEA_NVCC nvcc HINTS ENV CUDACXX /usr/local/cuda/bin)
  if(FOVEA_NVCC)
    set(FOVEA_CUDA_FOUND ON)
  elseif(FOVEA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FOVEA_CUDA=ON, but nvcc was not found")
  endif()
endif()

add_library(fovea_torch INTERFACE)
if(FOVEA_CUDA_FOUND)
  message(STATUS "CUDA kernels: built with ${FOVEA_NVCC}")
  set(CMAKE_CUDA_COMPILER "${FOVEA_NVCC}")
  set(CMAKE_CUDA_STANDARD 17)
  set(TORCH_CUDA_ARCH_LIST "8.0;9.0a" CACHE STRING "GPU architectures")
  enable_language(CUDA)
  # The package's find_library keeps what it found in an earlier .venv, and would link that LibTorch.
  get_cmake_property(cached CACHE_VARIABLES)
  foreach(variable ${cached})
    if("${${variable}}" MATCHES "/site-packages/torch/" AND NOT "${${variable}}" MATCHES "${torch_root}/")
      unset(${variable} CACHE)
    endif()
  endforeach()
  list(PREPEND CMAKE_PREFIX_PATH "${torch_root}/share/cmake")
  # The package sets global flags for its own architectures; ours are a target's property.
  set(saved_cuda_flags "${CMAKE_CUDA_FLAGS}")
  find_package(Torch REQUIRED)
  set(CMAKE_CUDA_FLAGS "${saved_cuda_flags}")
  # The package switches CMake's own architecture flags off.
  set(FOVEA_CUDA_ARCHITECTURES "80-real;90a-real" CACHE STRING "As CMAKE_CUDA_ARCHITECTURES")
  set(CMAKE_CUDA_ARCHITECTURES "${FOVEA_CUDA_ARCHITECTURES}")
  target_link_libraries(fovea_torch INTERFACE ${TORCH_LIBRARIES})
else()
  message(STATUS "CUDA kernels: not built (CPU only)")
  foreach(library c10 torch_cpu)
    add_library(fovea_torch_${library} SHARED IMPORTED)
    set_target_properties(fovea_torch_${library} PROPERTIES IMPORTED_LOCATION "${torch_root}/lib/lib${library}.so")
    target_link_libraries(fovea_torch INTERFACE fovea_torch_${library})
  endforeach()
  target_include_directories(fovea_torch SYSTEM INTERFACE
    "${torch_root}/include" "${torch_root}/include/torch/csrc/api/include")
  file(GLOB nvidia_folders "${torch_root}/../nvidia/*/lib")
  foreach(folder ${nvidia_folders})
    file(REAL_PATH "${folder}" folder)
    target_link_options(fovea_torch INTERFACE "LINKER:-rpath-link,${folder}")
  endforeach()
endif()

if(FOVEA_CUDA_FOUND)
  set(roots "${torch_root}/lib/libtorch.so" "${torch_root}/lib/libc10_cuda.so")
else()
  set(roots "${torch_root}/lib/libtorch_cpu.so")
endif()
file(REAL_PATH "${torch_root}/.." wheels)
set(FOVEA_TORCH_RUNTIME ${roots})
execute_process(COMMAND ldd ${roots} OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "=> /[^ ]+" needed "${needed}")
foreach(library ${needed})
  string(REPLACE "=> " "" library "${library}")
  file(REAL_PATH "${library}" library)
  cmake_path(IS_PREFIX wheels "${library}" of_the_wheels)
  if(of_the_wheels)
    list(APPEND FOVEA_TORCH_RUNTIME "${library}")
  endif()
endforeach()
list(REMOVE_DUPLICATES FOVEA_TORCH_RUNTIME)

# Programs of the build folder find them there, as hard links: .venv may lie in a home that other users cannot enter.
set(torch_links "${CMAKE_BINARY_DIR}/lib/torch")
file(MAKE_DIRECTORY "${torch_links}")
foreach(library ${FOVEA_TORCH_RUNTIME})
  get_filename_component(name "${library}" NAME)
  file(CREATE_LINK "${library}" "${torch_links}/${name}" RESULT refused)
  if(refused)
    file(CREATE_LINK "${library}" "${torch_links}/${name}" SYMBOLIC)
  endif()
endforeach()
if(refused)
  message(STATUS "${wheels} is on another file system: only users who can read it can run what is built here; "
                 "for others there is `make install`")
endif()
list(APPEND CMAKE_BUILD_RPATH "${torch_links}")

# The wheel's libraries export a libstdc++ of their own, std::filesystem among it, and some of it crashes when called
# from outside (remove_all does). The loader takes the first library that has a name: the system's, in front of them.
target_link_options(fovea_torch INTERFACE "LINKER:--no-as-needed,-lstdc++")

# at::parallel_for is a template: in a file compiled without OpenMP it runs on one thread, silently.
find_package(OpenMP REQUIRED COMPONENTS CXX)
target_compile_options(fovea_torch INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>")
# Not linked with -fopenmp: the wheel carries its own libgomp, and two of them in one process would be two thread pools.
file(GLOB torch_gomp "${torch_root}/lib/libgomp*.so*" "${torch_root}/../torch.libs/libgomp*.so*")
if(torch_gomp)
  list(GET torch_gomp 0 torch_gomp)
  target_link_libraries(fovea_torch INTERFACE "${torch_gomp}")
else()
  target_link_libraries(fovea_torch INTERFACE OpenMP::OpenMP_CXX)
endif()
