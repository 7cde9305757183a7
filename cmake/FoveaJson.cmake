# nlohmann/json as nlohmann_json::nlohmann_json: the installed package, or where there is none the headers in
# FOVEA_JSON_INCLUDE (a folder that holds nlohmann/), for machines where nothing can be installed.
set(FOVEA_JSON_INCLUDE "" CACHE PATH "Folder of nlohmann/json.hpp, where the package is not installed")
if(NOT TARGET nlohmann_json::nlohmann_json)
  if(FOVEA_JSON_INCLUDE)
    add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
    target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE "${FOVEA_JSON_INCLUDE}")
  else()
    find_package(nlohmann_json REQUIRED)
  endif()
endif()
