# The OpenCV modules that the trainer draws with, as imported targets opencv_core and opencv_imgproc. Not imgcodecs: it
# loads GDAL, poppler, HDF5 and a hundred other libraries.
# Debian's packages of single modules come without OpenCV's CMake package, which is in libopencv-dev with everything that
# OpenCV can do and its dependencies.
include_guard(GLOBAL)
find_path(FOVEA_OPENCV_INCLUDE opencv2/core.hpp PATH_SUFFIXES opencv4 REQUIRED)
foreach(module core imgproc)
  find_library(FOVEA_OPENCV_${module} opencv_${module} REQUIRED)
  add_library(opencv_${module} SHARED IMPORTED GLOBAL)
  set_target_properties(opencv_${module} PROPERTIES IMPORTED_LOCATION "${FOVEA_OPENCV_${module}}")
  target_include_directories(opencv_${module} SYSTEM INTERFACE "${FOVEA_OPENCV_INCLUDE}")
endforeach()
target_link_libraries(opencv_imgproc INTERFACE opencv_core)
