# The OpenCV modules that Fovea uses, as imported targets opencv_core, opencv_imgproc, opencv_imgcodecs.
# Debian's packages of single modules come without OpenCV's CMake package, which is in libopencv-dev with everything that
# OpenCV can do and its dependencies.
include_guard(GLOBAL)
find_path(FOVEA_OPENCV_INCLUDE opencv2/core.hpp PATH_SUFFIXES opencv4 REQUIRED)
foreach(module core imgproc imgcodecs)
  find_library(FOVEA_OPENCV_${module} opencv_${module} REQUIRED)
  add_library(opencv_${module} SHARED IMPORTED GLOBAL)
  set_target_properties(opencv_${module} PROPERTIES IMPORTED_LOCATION "${FOVEA_OPENCV_${module}}")
  target_include_directories(opencv_${module} SYSTEM INTERFACE "${FOVEA_OPENCV_INCLUDE}")
endforeach()
target_link_libraries(opencv_imgproc INTERFACE opencv_core)
target_link_libraries(opencv_imgcodecs INTERFACE opencv_imgproc)
